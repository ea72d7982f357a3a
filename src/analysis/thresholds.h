// SPDX-License-Identifier: Apache-2.0
// The thresholds of verdicts, with their reasons. docs/findings.md lists the same numbers for users; a test compares
// both (tests/checks/thresholds_test.py). Bounds of memory and of searches stand beside the code that keeps them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// Minimum cost of a group of stalls that is worth a finding: one long stall, or many that add up.
struct Gate {
  int64_t single_ns;  // one stall of this length is a finding by itself
  int64_t total_ns;   // otherwise the job must have lost this much ...
  double share;       // ... and this share of the time it spans
};

// --- which instances are looked at -----------------------------------------------------------------------------

/// A scheduler hiccup on a busy machine takes 5 to 30 ms; a shorter stall is not worth reading evidence for.
inline constexpr int64_t kStallFloorNs = 10 * kNsPerMs;
/// The baseline is the lower quartile, not the median: a fault that lasts most of a recording sets the median.
inline constexpr double kBaselineQuantile = 0.25;
/// The usual scatter is measured below the baseline, out of the reach of faults ...
inline constexpr double kScatterQuantile = 0.05;
/// ... and a stall exceeds it by this factor, similar to 3 standard deviations.
inline constexpr double kScatterFactor = 3.0;
/// Half of the baseline on top of it: a healthy slow network may scatter that much.
inline constexpr double kBaselineFactor = 0.5;
/// Fewer comparable instances give no baseline: only the absolute floor below applies.
inline constexpr int64_t kBaselineInstances = 8;
/// Without a baseline the usual duration is unknown; only a stall of this length is examined.
inline constexpr int64_t kNoBaselineFloorNs = 150 * kNsPerMs;
/// Of the steps that one synchronisation ends as a whole, so many have to be known for a baseline; with fewer, two at
/// least, only a step that took longer than the quickest quarter by this much is examined: evaluation and compilation
/// make single steps seconds long.
inline constexpr int64_t kNoStepBaselineFloorNs = 10 * kNsPerSecond;
/// The least steps with such a baseline: one, and another to compare it with.
inline constexpr int64_t kFewSteps = 2;
/// One synchronisation ended calls whose ends differ by less: durations are kept in whole microseconds.
inline constexpr int64_t kSameEndNs = 2 * kNsPerUs;
/// In each collective of a step the others wait for a slow device for a few milliseconds: these add up. Shorter waits
/// are the scatter of healthy kernels.
inline constexpr int64_t kDeviceWaitNs = kNsPerMs;
/// Steps that show how late a rank usually is in them, evenly spread over the recording: enough for a quantile, and few
/// to read again for each rank.
inline constexpr size_t kStepsLookedAt = 48;
/// The first instances of a communicator open connections and fault in memory ...
inline constexpr int64_t kWarmUpInstances = 3;
/// ... which takes tens to hundreds of milliseconds in good health.
inline constexpr int64_t kWarmUpFloorNs = 500 * kNsPerMs;
/// NCCL connects ranks in their first collective (NCCL_RUNTIME_CONNECT, on by default since 2.22). That takes seconds
/// on busy hosts or with many ranks: without evidence of a cause, such a first instance is reported only after this
/// time.
inline constexpr int64_t kConnectingNs = 10 * kNsPerSecond;
/// An instance that has not ended is a hang after this time: it is longer than any timeout that TCP recovers from
/// quietly.
inline constexpr int64_t kHangNs = kNsPerSecond;

/// An absent rank that is alive may still come, and nothing proves a hang, until the others have waited for this long
/// ...
inline constexpr int64_t kLongWaitNs = 30 * kNsPerSecond;
/// ... and for this many times the longest earlier wait on the same communicator, as for an evaluation on one rank.
inline constexpr int64_t kLongestWaits = 3;
/// An absent rank that computes, or devices that all ranks wait for while data may still move, prove no hang for this
/// long: first evaluations, compilations and checkpoints take minutes. PyTorch ends a call of NCCL after 10 min.
inline constexpr int64_t kUnprovenWaitNs = 600 * kNsPerSecond;
/// Unless all looks at its Python stack, this many at least and over kLongWaitNs, were at one line: it does not go on.
inline constexpr int64_t kFewestLooksAtALine = 3;
/// Maximum number of instances before a wait that are searched for the longest wait.
inline constexpr int64_t kWaitsLookedAt = 100'000;

/// A rank may still come while the others wait less than this multiple of the usual limit of their spread.
inline constexpr int64_t kSpreadsToHang = 2;
/// A call that all ranks have entered may wait for their devices, of which CPUs are ahead: it hangs once it has lasted
/// this many times as long as devices ever had other work to do first on its communicator.
inline constexpr int64_t kLongestCallsToHang = 2;
/// After how many calls a rank synchronises with its device is known from this many synchronisations of it, and only if
/// they came after at most one in as many different numbers of calls: then a rank whose calls have no end, and which
/// has never synchronised there, does not wait in a synchronisation.
inline constexpr int64_t kFewestSynchronisations = 4;
/// Minimum number of calls that a synchronisation ended for each earlier one that ended otherwise, of a rank whose
/// habit is known.
inline constexpr size_t kSynchronisedToOthers = 10;
/// Minimum number of sampled gaps from which the typical wait is extrapolated to gaps that were not sampled.
inline constexpr int64_t kSingleNodeSightings = 3;
/// Processes that end within this time of each other ended for one reason: watchdogs and launchers take up to that
/// long.
inline constexpr int64_t kDeathsApartNs = 60 * kNsPerSecond;
/// Stalls that a rhythm or a beginning is looked for in; fewer show one by chance.
inline constexpr int64_t kFewestForRhythm = 6;
/// A rhythm is claimed where stalls at random instances would show it less often than once in a thousand findings ...
inline constexpr double kRhythmByChance = 0.001;
/// ... and this share of the stalls keeps it.
inline constexpr double kRhythmShare = 0.8;
/// Up to this many stalls between two may have been too short to be found.
inline constexpr int64_t kMostMissedStalls = 2;
/// Instances without the stalls before their first: fewer are no time without them, but a warm-up.
inline constexpr int64_t kFewestBeforeABeginning = 20;
/// An exception that a main thread did not catch ends its process within this time: the interpreter waits for other
/// threads, exit handlers and destructors. One from longer before was another.
inline constexpr int64_t kRaisedBeforeNs = 60 * kNsPerSecond;
/// A process that ends closes its connections up to this long before its end: Python writes the traceback, then frees
/// its objects (0.1 to 0.4 s for PyTorch on a busy machine).
inline constexpr int64_t kTeardownNs = 5 * kNsPerSecond;
/// If the closing was not seen: calls of others that failed up to this long before a rank's process ended may have
/// failed because of it.
inline constexpr int64_t kTeardownUnseenNs = kNsPerSecond;
/// Ranks that follow another rank's end within this time, because their calls fail or a launcher ends them (mpirun
/// waits 1 s), did not hang: the job ended.
inline constexpr int64_t kFollowNs = 5 * kNsPerSecond;
/// If ranks fail in one way within this time and no rank waits, it does not matter which failed first.
inline constexpr int64_t kTogetherNs = kNsPerSecond;

/// A healthy communicator set-up takes seconds, and ranks start seconds apart ...
inline constexpr int64_t kInitHangNs = 5 * kNsPerSecond;
/// ... so it is a failure only if this many connection attempts failed while others waited. A set-up with so many
/// failed attempts that has not ended is reported sooner.
inline constexpr int64_t kUnreachedAttempts = 3;
inline constexpr int64_t kOpenInitNs = 2 * kNsPerSecond;
/// Ranks of one job with different variables are started within this time of each other.
inline constexpr int64_t kStartedTogetherNs = 60 * kNsPerSecond;
/// A rank without a recorded process counts as awaited when another rank has been in its set-up for this long.
inline constexpr int64_t kAbsentRankNs = 10 * kNsPerSecond;

/// A late rank's previous calls are searched this far back in each of its call sequences; no more are ever in flight.
inline constexpr int64_t kPreviousCalls = 256;

// --- how calls are matched ---------------------------------------------------------------------------------------

/// For communicators made before tracing began, agents on different nodes start within this many calls of each other.
inline constexpr int64_t kOffsetReach = 64;
/// Two sequences are compared at one offset by this many pairs of calls ...
inline constexpr int64_t kOffsetSamples = 256;
/// ... and this share of them must have the same operation and size: a few rows may be lost.
inline constexpr double kOffsetAgreement = 0.95;
/// The two ends of a connection are first seen at different times: up to seconds apart if sockets are listed.
inline constexpr int64_t kConnectionEndsApartNs = 5 * kNsPerSecond;

// --- which processes are one job attempt ---------------------------------------------------------------------------

/// Processes of a host that overlapped for less than this ran one after the other: a start is known to a tick (10 ms).
inline constexpr int64_t kLivesMeetNs = 20 * kNsPerMs;
/// Two agents of a host compute a process's start independently; their results differ by less than this.
inline constexpr int64_t kSameStartNs = 2 * kNsPerSecond;
/// Number of calls needed to determine the time difference between two processes' calls with equal numbers.
inline constexpr int64_t kAttemptSamples = 64;
/// Clocks of different hosts may differ, but within one job the difference between calls with equal numbers is steady,
/// since calls end together: with this many calls or more, its middle half scatters less than the value below ...
inline constexpr int64_t kSteadyCalls = 8;
inline constexpr int64_t kSteadyNs = 20 * kNsPerMs;
/// ... while two runs of one program drift apart: by at least this much, and by this factor.
inline constexpr int64_t kDriftNs = 2 * kNsPerMs;
inline constexpr int64_t kSteadyContrast = 4;
/// Processes of different hosts without a common named communicator are one job only if their lifetimes are at most
/// this far apart, which exceeds the clock error of a maintained host.
inline constexpr int64_t kClocksApartNs = 60 * kNsPerSecond;

// --- when evidence explains a stall ----------------------------------------------------------------------------

/// A cause must cover at least half of a stall; otherwise most of the time was lost elsewhere.
inline constexpr double kCoverage = 0.5;
/// The kernel's smallest retransmission timeout (TCP_RTO_MIN): the silence before a timeout is part of its cost.
inline constexpr int64_t kMinimumRtoNs = 200 * kNsPerMs;
/// A single retransmission outside of recovery (a tail loss probe) costs two round trips and a timer tick: this much to
/// either side. (If only one packet is in flight, the probe also waits for the smallest timeout.) Healthy runs have
/// many such retransmissions at no cost.
inline constexpr int64_t kRetransmitNs = 4 * kNsPerMs;
/// A retransmission causes a sample within this time; the sample shows whether a single packet was in flight.
inline constexpr int64_t kSampleAfterRepeatNs = kNsPerMs;
/// A sender that holds data back with nothing in flight this soon after a timeout does so because of the timeout: the
/// loss costs the time until it sends again.
inline constexpr int64_t kHeldAfterTimeoutNs = 20 * kNsPerMs;
/// A summary of CPU waits names one competitor. From this share on, all of the time counts as the competitor's (the
/// others are its siblings or short); below, only its own time does.
inline constexpr double kMainCompetitorShare = 1.0 / 3;
/// Programs outside of the job, or a throttled cgroup, must cause this share of a rank's CPU waits to be the cause.
inline constexpr double kContentionMainShare = 0.5;
/// Competitors from the job itself or the tracer are normal on a small machine; they are the cause only if they cover
/// nearly all of the stalled time.
inline constexpr double kInternalContentionCoverage = 0.9;
/// A contended rank must exceed the middle rank by this factor: on a machine that is busy everywhere no rank is the
/// culprit.
inline constexpr double kContentionContrast = 1.5;
/// A rank that shares its core with other ranks is late because of its own work only if it computed for longer than a
/// scheduler hiccup lasts.
inline constexpr int64_t kMoreWorkNs = 30 * kNsPerMs;
/// The late rank must own this share of all lateness during its stalls; hiccups affect every rank.
inline constexpr double kLateDominance = 0.6;
/// In a communicator's first instances ranks compile kernels and fill caches, each for its own time: a rank that is
/// late only there is not reported ...
inline constexpr int64_t kSettlingInstances = 40;
/// ... or in so many steps, where a rank's calls show which of them are a step: with tensor parallelism one has
/// hundreds ...
inline constexpr int64_t kSettlingSteps = 5;
/// ... but no longer than this, since what looks like a step may be ten of them (a job that logs in every tenth) ...
inline constexpr int64_t kSettlingLongestNs = 60 * kNsPerSecond;
/// ... unless it is late for longer than that takes.
inline constexpr int64_t kSettlingNs = 5 * kNsPerSecond;
/// Among several ranks one is last more often by chance: the late rank's part of all lateness must exceed the part that
/// equal chances would give it by this many standard deviations ...
inline constexpr double kLateDeviations = 3;
/// ... where lateness comes in runs, since the collectives of a step are late for one reason: a stall is compared with
/// so many after it ...
inline constexpr size_t kLateRun = 2;
/// ... by how far the rank's part of it differs from its part of so many before and after: in a time in which a rank is
/// always late there is no difference.
inline constexpr size_t kLateAround = 32;
/// Rank 0 evaluates, logs and saves while the others wait. Its lateness is that work if it computes in that time, and
/// if no more than this share of the instances holds ...
inline constexpr double kRareShare = 0.05;
/// ... this share of its lateness.
inline constexpr double kRareWorkShare = 0.8;
/// Any rank evaluates, saves or compiles now and then. While most of its lateness is in so few pauses, or in no larger
/// share of the steps than above, and each of them is that long, it is not known to be a fault: the severity is
/// `waiting`. Three is what a minute of an ordinary job has (one evaluation, one checkpoint, one compilation); in a
/// recording of few steps they must be the smaller half. What is shorter than a second is no such phase.
inline constexpr size_t kFewPauses = 3;
inline constexpr int64_t kLongPauseNs = kNsPerSecond;
/// One end of a link is the culprit if it shows the fault on at least this many links in one direction.
inline constexpr int kLinksForCulprit = 2;
/// An additional link counts only with this share of the first link's loss.
inline constexpr double kLinkShare = 0.2;
/// Lost acknowledgements cost less than lost data, since a later one replaces them: up to this share, the loss or the
/// slowness of the link on a node's other side is an echo of the first.
inline constexpr double kEchoShare = 0.4;

/// If nothing is acknowledged while the timer doubles this often, at least 600 ms pass: loss of single packets ends
/// earlier.
inline constexpr uint8_t kSilentBackoff = 2;
/// With this many other timeouts around a silence, the link loses packets all the time ...
inline constexpr int64_t kLossyTimeouts = 3;
/// ... counted this far before and after the silence.
inline constexpr int64_t kLossyAroundNs = 30 * kNsPerSecond;
/// Confidence in an MTU black hole if small segments passed before the silence but none was sent during it: a partition
/// may have begun since.
inline constexpr double kPassedBeforeCertainty = 0.8;
/// Segments below this size are small: every network carries them (IPv6 requires packets of 1280 bytes).
inline constexpr uint32_t kSmallSegmentBytes = 1000;
/// The receiver must count this many bytes beyond the acknowledged ones to prove that data arrive: more than the SYN
/// and the FIN, which count as bytes.
inline constexpr uint64_t kArrivedBytes = 100;
/// A slow link carries data for this share of the stall; others are idle for most of it.
inline constexpr double kBusyShare = 0.7;
/// A collective does not wait for a connection with less than this share of the busiest connection's bytes.
inline constexpr double kCarriesShare = 0.05;
/// While busy, a slow link delivers at most half of what the middle one of the other links delivers.
inline constexpr double kSlowLinkContrast = 2.0;
/// A sender that is limited by the receiver's window for half of the stall has a receiver that does not read.
inline constexpr double kReceiverLimitedShare = 0.5;
/// Alternatively, data lie unread in most of the receiver's samples. Samples are taken while data move, so that some
/// unread data are usual ...
inline constexpr double kUnreadShare = 0.7;
/// ... at all ranks alike: the slow rank exceeds the middle one by this factor.
inline constexpr double kUnreadContrast = 1.5;
/// Alternatively, its unread bytes exceed the middle rank's by this factor: the other ranks read in bursts what the
/// slow one forwards, and few samples fall between two bursts.
inline constexpr double kBacklogContrast = 2.0;
/// Fewer samples do not prove a share.
inline constexpr int64_t kUnreadSamples = 3;
/// A reader that was ready but did not run for this share of a stall read late because it had no CPU. It is half of the
/// share that cpu_contention needs, so that no rank between the two is blamed for slow reading.
inline constexpr double kStarvedReaderShare = 0.25;
/// If a host itself dropped this share of the retransmitted bytes, the loss is the host's; the other retransmissions
/// are needless.
inline constexpr double kDroppedShare = 0.3;
/// Healthy links count a symbol error now and then; a failing link counts them continuously.
inline constexpr double kFabricErrorsPerSecond = 10;
/// A port's counter stands out if it rises this many times as fast as far from all stalls, and as at the middle one of
/// the other nodes. The ranks' ports carry like amounts of data, and seconds of one port scatter by about 2.
inline constexpr double kPortContrast = 4.0;
/// Counters of ports are also read for this long before the first stall and after the last one, to compare with.
inline constexpr int64_t kCalmAroundNs = 30 * kNsPerSecond;
/// Fewer marks or notifications a second slow nothing: at 100 Gbit/s a port moves some 3 million packets of 4 KiB.
inline constexpr double kCongestionMarksPerSecond = 1000;
/// The length of a tick of port_xmit_wait differs by card; at 1 ns or more this is a hundredth of the time or more.
inline constexpr double kCreditWaitsPerSecond = 10'000'000;
/// Host counters are read once a second; a busy agent reads them late.
inline constexpr int64_t kHostSampleNs = 3 * kNsPerSecond;
/// Changes of a host counter in the second before and after a stall may belong to it: the counter was read once in
/// each.
inline constexpr int64_t kHostCounterAroundNs = kNsPerSecond;
/// A host is mentioned if its processes waited for memory in this share of the stalls; on a healthy host it is far
/// below one percent.
inline constexpr double kMemoryPressureShare = 0.1;
/// Packets of protocols that a host does not support (spanning tree, LLDP) count as dropped, less than one a second.
inline constexpr double kHostPacketsPerSecond = 1;
/// A receive cycle that ends early has lasted up to 2 ms (net.core.netdev_budget_usecs): this many take a fifth of a
/// CPU.
inline constexpr double kSqueezesPerSecond = 100;
/// A counter that rises all the time proves nothing about the stalls: around them it must rise faster by this factor.
inline constexpr double kHostCounterContrast = 2.0;
/// A hint names at most this many host counters.
inline constexpr size_t kMostHostCounters = 4;
/// Shorter waits of a transfer's step prove nothing (the plugin's ST_BOX_LONG_WAIT_NS).
inline constexpr int64_t kLongStepNs = 5 * kNsPerMs;
/// Steps of a connection that can be in flight at a time (NCCL_STEPS): in a run of that many steps that wait long, only
/// the first has its own row (the plugin's ST_BOX_STEPS_UNDER_WAY, docs/profiler_file.md).
inline constexpr int32_t kStepsUnderWay = 8;
/// A step without its own row waited less than the long step for each of three things.
inline constexpr int64_t kUnrecordedStepNs = 3 * kLongStepNs;
/// Operations of a connection follow each other. One that ended up to this long after a record began still counts as
/// earlier, since the two times are read one after the other.
inline constexpr int64_t kSameMomentNs = kNsPerMs;
/// An edge of the wait-for graph must hold for this share of the time or of the samples; otherwise it is noise.
inline constexpr double kEdgeShare = 0.5;
/// By step evidence, a link is slow if no other link held data for half as long.
inline constexpr double kLinkHeldContrast = 2.0;
/// Maximum confidence of steps and arrivals without host evidence: they show where time went, not why.
inline constexpr double kProfilerAloneConfidence = 0.7;
/// Data in flight when the last rank entered arrives within this time: later, an idle connection means silence.
inline constexpr int64_t kWireSettlesNs = 500 * kNsPerMs;
/// With real loss one retransmission in a hundred is needless (measured); with a receiver that acknowledges slowly,
/// nearly all.
inline constexpr double kNeedlessShare = 0.5;
/// A receiver reports a needless retransmission when it arrives; connections are sampled ten times a second.
inline constexpr int64_t kNeedlessReportedNs = 200 * kNsPerMs;
/// A reset causes errors within a watchdog's timeout; it may precede a stall by this much.
inline constexpr int64_t kResetBeforeNs = 500 * kNsPerMs;
/// Resets of one event occur within this time of the first.
inline constexpr int64_t kResetsApartNs = kNsPerSecond;
/// A process that ends resets its connections at once; the order of events on two hosts is known to this much.
inline constexpr int64_t kDeathToResetNs = 10 * kNsPerMs;

/// A late rank's calls on another communicator are searched this far back from the stall.
inline constexpr int64_t kCallsElsewhere = 256;

// --- which cause, and how sure ---------------------------------------------------------------------------------

/// A less direct rule must cover this much more of a stall to be chosen.
inline constexpr double kDirectnessMargin = 0.15;
/// Maximum confidence of a finding: no evidence is complete.
inline constexpr double kMaxConfidence = 0.99;
/// Confidence of `unknown`: the lost time is certain, its location and cause are not.
inline constexpr double kUnknownConfidence = 0.3;
/// Confidence of `slow_device`: which device is behind is certain, whether it is slow or has more to do is not.
inline constexpr double kSlowDeviceConfidence = 0.8;
/// A rank launched some calls of a step, without ends, and not the next one: that it is outside follows from where it
/// synchronised before.
inline constexpr double kStoppedInStepConfidence = 0.8;
/// Failed connection attempts during a set-up: something else may have delayed the set-up as well.
inline constexpr double kInitFailureConfidence = 0.95;

// --- when the cost is a finding --------------------------------------------------------------------------------

/// Shares refer to at least this time (or the whole recording), so that two hiccups close together are not "half of the
/// time".
inline constexpr int64_t kShareSpanNs = 10 * kNsPerSecond;

/// One timeout of 200 ms occurs on healthy networks (reordering at a tail); two, or one that backed off, do not.
inline constexpr Gate kPacketLossGate{400 * kNsPerMs, 250 * kNsPerMs, 0.03};
/// A garbage collection or a page fault storm ends within 100 ms; small but steady lateness counts by its sum.
inline constexpr Gate kLateRankGate{150 * kNsPerMs, 250 * kNsPerMs, 0.05};
/// Devices wait for each other where batches are uneven: no single wait counts, but one that no batch explains.
inline constexpr Gate kSlowDeviceGate{kNoStepBaselineFloorNs, 500 * kNsPerMs, 0.05};
/// A time slice is 3 to 30 ms: a single stall of this length needs a competitor that keeps the core.
inline constexpr Gate kCpuContentionGate{200 * kNsPerMs, 250 * kNsPerMs, 0.04};
/// A stop by a debugger or freezer is deliberate and has a low gate.
inline constexpr Gate kProcessStoppedGate{100 * kNsPerMs, 200 * kNsPerMs, 0.02};
/// A hang is a finding as soon as it is one.
inline constexpr Gate kHangGate{kHangNs, kHangNs, 0};
/// A timer that doubles twice means more than half a second of silence.
inline constexpr Gate kPartitionGate{500 * kNsPerMs, 500 * kNsPerMs, 0.02};
/// Half of the link rate, for a job that waits for its network a fifth of the time.
inline constexpr Gate kSlowLinkGate{500 * kNsPerMs, 500 * kNsPerMs, 0.10};
/// As for a slow link: the transfer takes longer, nothing is lost.
inline constexpr Gate kSlowReceiverGate{500 * kNsPerMs, 500 * kNsPerMs, 0.10};
/// An `unknown` finding must clearly exceed the noise of a shared machine.
inline constexpr Gate kUnknownGate{500 * kNsPerMs, kNsPerSecond, 0.10};

/// Severity "high": a fifth of the time, or one stall that users notice ...
inline constexpr double kHighShare = 0.2;
inline constexpr int64_t kHighStallNs = kNsPerSecond;
/// ... and "medium": worth a look. Below, "low". Hangs and wrong data are critical.
inline constexpr double kMediumShare = 0.05;
/// Maximum number of calls that a finding names for `explain --instance`.
inline constexpr size_t kExpensiveCalls = 3;

/// In addition to explained findings, unexplained stalls below this share of their cost are residue, not a second
/// fault; a slow receiver below this share of another one's cost is its echo.
inline constexpr double kResidueShare = 0.25;

// --- when a live finding is reported ------------------------------------------------------------------------------

/// A stall that only one look sees may come from the edge of the window, where ends and evidence are still missing.
inline constexpr int kLooksToReport = 2;
/// A finding ends when its last stall ended this long ago: an intermittent fault continues.
inline constexpr int64_t kLiveQuietNs = 4 * kNsPerSecond;
/// A finding with the same cause and location within this time is the same finding again.
inline constexpr int64_t kLiveReturnNs = 60 * kNsPerSecond;
/// A finding is printed again when its cost has grown by this factor: a hang of days is printed some fifty times.
inline constexpr double kLiveGrowth = 1.2;
/// Keep this much history from before a finding's start, so that the baseline is not learned from the fault itself.
inline constexpr int64_t kHeldBeforeNs = 30 * kNsPerSecond;
/// For a hang that outlasts the window, calls and evidence from shortly before its start are kept as well.
inline constexpr int64_t kHeldBeforeHangNs = kNsPerSecond;
inline constexpr int64_t kHeldIntoHangNs = 20 * kNsPerSecond;

// --- bounds of the work ----------------------------------------------------------------------------------------

/// Evidence is read from this long before a stall: the late rank's last work, the connection's state.
inline constexpr int64_t kEvidenceMarginNs = 500 * kNsPerMs;
/// At most this much of one stall is examined; a hang of hours looks the same throughout.
inline constexpr int64_t kLongestStallNs = 120 * kNsPerSecond;
/// Maximum number of examined stalls, the most expensive ones; more of the same would not change a verdict.
inline constexpr int64_t kMaxStalls = 100'000;
/// ... and of the ranks that they name, at 2 bytes each: a stall of 8,192 ranks names each of them up to twice.
inline constexpr int64_t kMaxStallMembers = 50'000'000;
/// Maximum number of rows of each evidence table in memory (about 64 bytes each).
inline constexpr int64_t kMaxEvidenceRows = 1'500'000;
/// Maximum number of Python stack samples; a node records at most some tens a minute.
inline constexpr int64_t kMostPythonStacks = 100'000;

// --- the order of calls alone: what logs and dumps show -----------------------------------------------------------

/// A CPU can't be further ahead of a rank that is missing: a CUDA stream's queue holds about 1,024 launches. If the
/// others went on for longer, they were not waiting: the end of that rank's log is missing.
inline constexpr int64_t kMostCallsAhead = 1024;
/// Where nothing shows that the job stood still, only a difference of this many calls is reported: a program launches a
/// few collectives before it waits. More are lost with one buffer of the C library (4 KiB, some 20 lines).
inline constexpr int64_t kMostUnprovenCallsAhead = 4;
/// PyTorch's watchdog asks for the state of all ranks when it reports a timeout, and each looks for that once a second
/// (TORCH_NCCL_COORD_CHECK_MILSEC, 1000 ms): numbers that a rank printed up to this long before the report are of the
/// same moment. As much again is left for the clocks of hosts.
inline constexpr int64_t kStatementsApartNs = 2 * kNsPerSecond;
/// A rank counts as silent if its log goes on without its call for this long after the others' ...
inline constexpr int64_t kSilentNs = kNsPerSecond;
/// ... and for this many times the longest time between two calls of the others.
inline constexpr int64_t kLongestPauses = 4;
/// The rank left its communicator although others are in a later call.
inline constexpr double kLeftConfidence = 0.9;
/// The call before ended, so that the rank is outside, as in a Flight Recorder dump.
inline constexpr double kOutsideConfidence = 0.8;
/// A log shows who began a call last. It does not show whether the rank still waits inside the call before.
inline constexpr double kStandingStillConfidence = 0.6;
/// Nor, without more, whether the log is complete ...
inline constexpr double kOrderAloneConfidence = 0.4;
/// ... or, without the logs of all ranks, whether another one is further behind.
inline constexpr double kSomeRanksConfidence = 0.3;

// --- NCCL's Inspector ------------------------------------------------------------------------------------------------

/// A rank is last in an instance if its part took at most this share of the next shortest, as no scatter does ...
inline constexpr double kInspectorShortShare = 0.5;
/// ... and was this much below the median of the others: kernels of one instance differ by less in a job in step.
inline constexpr int64_t kInspectorWaitNs = kNsPerMs;
/// It is to blame if it was last in so many instances of one operation and communicator ...
inline constexpr int64_t kInspectorInstances = 10;
/// ... and in this share of them: who is last changes in a job in step.
inline constexpr double kInspectorLateShare = 0.5;

// --- kernel logs -----------------------------------------------------------------------------------------------------

/// What a kernel's log reports is the job's if it came at most this long before its first collective or after its last:
/// a job starts before its first collective, and may hang for its library's time-out after its last.
inline constexpr int64_t kDeviceSlackNs = 1800 * kNsPerSecond;
/// Times without an offset from UTC may be off by this: no zone is further from UTC.
inline constexpr int64_t kLargestTimeZoneNs = 50'400 * kNsPerSecond;
/// The message names the process of a rank on its host.
inline constexpr double kDeviceOfRankConfidence = 0.9;
/// It names a host of the job, or a rank's process without the host.
inline constexpr double kDeviceOfHostConfidence = 0.6;
/// Nothing shows that the host had a part in the job.
inline constexpr double kDeviceAloneConfidence = 0.4;

// --- benchmarks ------------------------------------------------------------------------------------------------------

/// A result of nccl-tests is an outlier if it is slower than its neighbours by this factor: where NCCL changes its
/// protocol or algorithm, curves of healthy systems have steps of up to a third.
inline constexpr double kOutlierFactor = 1.5;
/// A run with less than this share of another run's bus bandwidth is slower: repeated runs differ by a few percent.
inline constexpr double kSlowerRunShare = 0.8;
/// Runs with fewer results in common are not compared ...
inline constexpr size_t kSizesCompared = 3;
/// ... and smaller sizes only if there are no such: they show latency, which varies more than bandwidth.
inline constexpr int64_t kBandwidthBytes = 1'048'576;

// --- profiler traces -------------------------------------------------------------------------------------------------

/// A rank is late if it is this share of a step longer outside of communication than the median of the ranks, and they
/// are that much longer in communication than it: below, ranks of healthy jobs differ, and steps do.
inline constexpr double kLateStepShare = 0.1;
/// A step is an outlier if it took this many times the median of its trace.
inline constexpr double kOutlierStep = 1.5;
/// Traces with fewer steps have no median worth a comparison.
inline constexpr int64_t kLeastSteps = 3;

// --- packet captures -------------------------------------------------------------------------------------------------

/// Retransmissions are trouble from this share of a flow's bytes on: healthy networks have fewer, by reordering or full
/// queues; from 1 % on TCP's rate falls to a fraction (Mathis et al.: by the root of the share).
inline constexpr double kRetransmitShare = 0.01;
/// With fewer retransmissions the share means nothing.
inline constexpr int64_t kLeastRetransmits = 3;
/// An unacknowledged segment that was sent again this often is stuck: its timer has doubled twice.
inline constexpr int64_t kStuckRepeats = 3;
/// A closed window is trouble from this part of the flow's time on ...
inline constexpr double kClosedWindowShare = 0.05;
/// ... or, in all, from this on: a retransmission timeout.
inline constexpr int64_t kClosedWindowNs = 200 * kNsPerMs;
/// Retransmissions are of one host if it has this share of them, and at least two peers.
inline constexpr double kOneHostShare = 0.9;

}  // namespace stalltrace::analysis
