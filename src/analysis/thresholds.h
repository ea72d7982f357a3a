// SPDX-License-Identifier: Apache-2.0
// Every number a verdict depends on, with its reason. docs/findings.md gives users the same numbers, which a test
// compares (tests/checks/thresholds_test.py).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// When the cost of a group of stalls is worth waking somebody: one long stall, or many that add up.
struct Gate {
  int64_t single_ns;  // one stall this long is a finding by itself
  int64_t total_ns;   // otherwise the job must have lost this much ...
  double share;       // ... and this share of the time it spans
};

// --- which instances are looked at -----------------------------------------------------------------------------

/// A scheduler hiccup on a busy machine is 5 to 30 ms; below this an instance is not worth reading evidence for.
inline constexpr int64_t kStallFloorNs = 10 * kNsPerMs;
/// The baseline is the lower quartile, not the median: a fault that lasts most of a recording owns the median.
inline constexpr double kBaselineQuantile = 0.25;
/// The usual scatter is measured below the baseline, where no fault reaches ...
inline constexpr double kScatterQuantile = 0.05;
/// ... and an instance must leave it by this factor, as with 3 standard deviations.
inline constexpr double kScatterFactor = 3.0;
/// Half of the baseline again: a slow network may scatter by that in good health.
inline constexpr double kBaselineFactor = 0.5;
/// Fewer like instances than this give no baseline: an instance is then judged by the absolute floor below only.
inline constexpr int64_t kBaselineInstances = 8;
/// Without a baseline nobody knows what is normal; only a stall this long is looked at.
inline constexpr int64_t kNoBaselineFloorNs = 150 * kNsPerMs;
/// The first instances of a communicator open connections and fault in memory ...
inline constexpr int64_t kWarmUpInstances = 3;
/// ... which takes tens to hundreds of milliseconds in good health.
inline constexpr int64_t kWarmUpFloorNs = 500 * kNsPerMs;
/// NCCL connects ranks in their first collective (NCCL_RUNTIME_CONNECT, on by default since 2.22), which takes seconds
/// where hosts are busy or ranks are many: without evidence of a cause such a first instance is not reported before
/// this.
inline constexpr int64_t kConnectingNs = 10 * kNsPerSecond;
/// An instance that has not ended is a hang after this: longer than any timeout that TCP recovers from quietly.
inline constexpr int64_t kHangNs = kNsPerSecond;

/// A rank that is alive and has not come may still come: the others wait, and nothing proves a hang, until they have
/// waited for this long ...
inline constexpr int64_t kLongWaitNs = 30 * kNsPerSecond;
/// ... and for this many times the longest wait before it on the same communicator, as for an evaluation on one rank.
inline constexpr int64_t kLongestWaits = 3;
/// So many instances before a wait are looked at for the longest one.
inline constexpr int64_t kWaitsLookedAt = 100'000;

/// A rank may still come while the others wait less than this many times the limit of their usual spread.
inline constexpr int64_t kSpreadsToHang = 2;
/// Minimum number of sampled gaps from which the typical wait is extrapolated to gaps that were not sampled.
inline constexpr int64_t kSingleNodeSightings = 3;
/// Processes that end within this time of each other ended for one reason: watchdogs and launchers take up to that.
inline constexpr int64_t kDeathsApartNs = 60 * kNsPerSecond;
/// A process that ends closes its connections up to this long before: Python writes the traceback, then frees its
/// objects (0.1 to 0.4 s for PyTorch on a busy machine).
inline constexpr int64_t kTeardownNs = 5 * kNsPerSecond;
/// Where that was not seen: calls of others that failed this long before a rank's process ended may have failed of it.
inline constexpr int64_t kTeardownUnseenNs = kNsPerSecond;
/// Others that follow a rank this soon, because their calls fail or a launcher ends them (mpirun waits 1 s), did not
/// hang: the job ended.
inline constexpr int64_t kFollowNs = 5 * kNsPerSecond;
/// Ranks that fail in one way within this time, while nobody waits, have no first one that would mean anything.
inline constexpr int64_t kTogetherNs = kNsPerSecond;

/// Setting up a communicator takes seconds in good health, and ranks start seconds apart ...
inline constexpr int64_t kInitHangNs = 5 * kNsPerSecond;
/// ... so that it is a failure only where this many attempts to connect failed while others waited. Where they did, one
/// that has not ended is reported sooner.
inline constexpr int64_t kUnreachedAttempts = 3;
inline constexpr int64_t kOpenInitNs = 2 * kNsPerSecond;
/// Ranks of one job that were given different variables are started within this time of each other.
inline constexpr int64_t kStartedTogetherNs = 60 * kNsPerSecond;
/// A rank of which no process was seen is awaited when another one has been in its set-up for this long.
inline constexpr int64_t kAbsentRankNs = 10 * kNsPerSecond;

/// A late rank's previous calls are searched this far back, in each of its call sequences: more are never in flight.
inline constexpr int64_t kPreviousCalls = 256;

// --- how calls are matched ---------------------------------------------------------------------------------------

/// On communicators made before tracing began, agents on different nodes start within this many calls of each other.
inline constexpr int64_t kOffsetReach = 64;
/// This many pairs of calls are enough to compare two sequences at one offset ...
inline constexpr int64_t kOffsetSamples = 256;
/// ... and this share of them must have the same operation and size: a few rows may be lost.
inline constexpr double kOffsetAgreement = 0.95;
/// The two ends of a connection are first seen at different moments: where sockets are listed, up to seconds apart.
inline constexpr int64_t kConnectionEndsApartNs = 5 * kNsPerSecond;

// --- which processes are one job attempt ---------------------------------------------------------------------------

/// Processes of a host that were alive together for less follow each other: a start is known to a tick (10 ms).
inline constexpr int64_t kLivesMeetNs = 20 * kNsPerMs;
/// Two agents of a host, that each computed when a process started, agree to within this.
inline constexpr int64_t kSameStartNs = 2 * kNsPerSecond;
/// This many calls are enough to say how far apart two processes made those with equal numbers.
inline constexpr int64_t kAttemptSamples = 64;
/// Between hosts, whose clocks may be off, that difference is steady for one job, since calls end together: from this
/// many calls on, its middle half scatters less than this ...
inline constexpr int64_t kSteadyCalls = 8;
inline constexpr int64_t kSteadyNs = 20 * kNsPerMs;
/// ... while two runs of one program drift apart: by so much at least, and this many times as much.
inline constexpr int64_t kDriftNs = 2 * kNsPerMs;
inline constexpr int64_t kSteadyContrast = 4;
/// Processes of different hosts that share no communicator with a name are one job where their lives are no further
/// apart than this: more than the error of a clock that anybody looks after.
inline constexpr int64_t kClocksApartNs = 60 * kNsPerSecond;

// --- when evidence explains a stall ----------------------------------------------------------------------------

/// A cause must cover at least half of a stall; with less, most of the time was lost elsewhere.
inline constexpr double kCoverage = 0.5;
/// The kernel's smallest retransmission timeout (TCP_RTO_MIN): the silence before a timeout is part of its cost.
inline constexpr int64_t kMinimumRtoNs = 200 * kNsPerMs;
/// A single retransmission outside of recovery (a tail loss probe) costs two round trips and a timer tick: this
/// much to either side. (When one packet alone is under way, the probe waits for the smallest timeout besides.) Healthy
/// runs have many that cost nothing.
inline constexpr int64_t kRetransmitNs = 4 * kNsPerMs;
/// The sample that a retransmission causes follows it within this time: it shows whether a single packet was in flight.
inline constexpr int64_t kSampleAfterRepeatNs = kNsPerMs;
/// What a sender holds back this soon after a timeout, though nothing is in flight, it holds back because of the
/// timeout: loss costs the time until it sends again.
inline constexpr int64_t kHeldAfterTimeoutNs = 20 * kNsPerMs;
/// A summary of waits for a CPU names one competitor: with this share of the time, all of it counts as that one's (the
/// others are its siblings or short), else only the competitor's own.
inline constexpr double kMainCompetitorShare = 1.0 / 3;
/// Of a rank's waits for a CPU this share must be due to programs outside of the job, or to a throttled cgroup, for
/// either to be called the cause.
inline constexpr double kContentionMainShare = 0.5;
/// A competitor from the job itself or the tracer is normal on a small machine; it is the cause only when it
/// covers nearly all of the stalled time.
inline constexpr double kInternalContentionCoverage = 0.9;
/// A contended rank must stand out from the middle rank by this factor: a machine that is busy everywhere has
/// no culprit.
inline constexpr double kContentionContrast = 1.5;
/// A rank that shares its core with other ranks is late by its own work only when it computed for longer than a
/// scheduler hiccup lasts.
inline constexpr int64_t kMoreWorkNs = 30 * kNsPerMs;
/// Of all lateness in its time, a rank must own this much to be the late rank; hiccups hit everybody.
inline constexpr double kLateDominance = 0.6;
/// In the first instances of a communicator ranks compile kernels and fill caches, each for its own time: who is late
/// only there is not reported ...
inline constexpr int64_t kSettlingInstances = 40;
/// ... unless for longer than such things take.
inline constexpr int64_t kSettlingNs = kNsPerSecond;
/// By chance, too, one of several ranks is the last more often: the late rank's part of all lateness must be this many
/// standard deviations above its part if each lateness had hit any rank alike ...
inline constexpr double kLateDeviations = 3;
/// Rank 0 evaluates, logs and saves while the others wait: as long as it computes, and no more than this share of the
/// instances holds ...
inline constexpr double kRareShare = 0.05;
/// ... this share of the time that it is late, that is its work.
inline constexpr double kRareWorkShare = 0.8;
/// A link's end is the culprit when it shows the fault on at least this many links in one direction.
inline constexpr int kLinksForCulprit = 2;
/// An extra link counts for that with this share of the first one's loss.
inline constexpr double kLinkShare = 0.2;
/// Lost acknowledgements cost less than lost data, since a later one stands for them: up to this share, the loss or the
/// slowness of the link on a node's other side is the echo of the first.
inline constexpr double kEchoShare = 0.4;

/// Nothing acknowledged while the timer doubled this often means at least 600 ms: loss of single packets ends earlier.
inline constexpr uint8_t kSilentBackoff = 2;
/// With this many other timeouts around a silence, the link loses packets all the time ...
inline constexpr int64_t kLossyTimeouts = 3;
/// ... looked for this far before and after it.
inline constexpr int64_t kLossyAroundNs = 30 * kNsPerSecond;
/// Confidence in an MTU black hole where small segments passed before the silence and none was sent in it: it may be a
/// partition that began since.
inline constexpr double kPassedBeforeCertainty = 0.8;
/// A segment is small when it is below this: every network carries it (IPv6 asks for packets of 1280).
inline constexpr uint32_t kSmallSegmentBytes = 1000;
/// Bytes that the receiver must count beyond the acknowledged ones to prove that data arrive: more than the SYN
/// and the FIN, which count as bytes.
inline constexpr uint64_t kArrivedBytes = 100;
/// A slow link carries data for this share of the stall; others are idle for most of it.
inline constexpr double kBusyShare = 0.7;
/// A connection with less than this share of the busiest one's bytes is not what a collective waits for.
inline constexpr double kCarriesShare = 0.05;
/// It delivers at most half of what the middle one of the other links does while busy.
inline constexpr double kSlowLinkContrast = 2.0;
/// Limited by the receiver's window for half of the stall: it does not read.
inline constexpr double kReceiverLimitedShare = 0.5;
/// Or data lie unread in most of the receiver's samples: samples are taken while data move, so that some unread data
/// are usual ...
inline constexpr double kUnreadShare = 0.7;
/// ... at all ranks alike: the slow one stands out from the middle one by this factor.
inline constexpr double kUnreadContrast = 1.5;
/// Or by this factor of unread bytes: the others read in bursts what it lets through, and few samples catch them
/// between two.
inline constexpr double kBacklogContrast = 2.0;
/// Fewer samples than this prove nothing about a share.
inline constexpr int64_t kUnreadSamples = 3;
/// A reader that was ready but did not run for this share of a stall read late for want of a CPU: half of what makes
/// cpu_contention a cause, so that between the two nobody is accused of reading slowly.
inline constexpr double kStarvedReaderShare = 0.25;
/// Retransmitted bytes of which a host dropped this share itself were its loss; the rest repeats needlessly.
inline constexpr double kDroppedShare = 0.3;
/// Links in good health count a symbol error now and then; a failing one counts them all the time.
inline constexpr double kFabricErrorsPerSecond = 10;
/// Numbers about the host are read once a second; a busy agent is late.
inline constexpr int64_t kHostSampleNs = 3 * kNsPerSecond;
/// What a counter of the host did in the second before and after a stall may belong to it: it was read once in each.
inline constexpr int64_t kHostCounterAroundNs = kNsPerSecond;
/// A host whose processes waited for memory in this share of the stalls is mentioned; in good health it is far below
/// one percent.
inline constexpr double kMemoryPressureShare = 0.1;
/// Packets of protocols that a host does not know (spanning tree, LLDP) count as dropped, less than one a second.
inline constexpr double kHostPacketsPerSecond = 1;
/// A turn of receiving that ends early has lasted up to 2 ms (net.core.netdev_budget_usecs): this many are a fifth
/// of a CPU.
inline constexpr double kSqueezesPerSecond = 100;
/// What a host counts all the time proves nothing about the stalls: around them a counter rises faster by this factor.
inline constexpr double kHostCounterContrast = 2.0;
/// The first few counters of hosts are enough for a hint.
inline constexpr size_t kMostHostCounters = 4;
/// A step of a transfer that waits less for one thing proves nothing (the plugin's ST_BOX_LONG_WAIT_NS).
inline constexpr int64_t kLongStepNs = 5 * kNsPerMs;
/// A step without a row of its own waited less than the long step for each of three things.
inline constexpr int64_t kUnrecordedStepNs = 3 * kLongStepNs;
/// Operations of a connection come one after another: one that ended up to this long after a record began still came
/// before it, since the times of the two are read one after the other.
inline constexpr int64_t kSameMomentNs = kNsPerMs;
/// An edge of the wait-for graph must hold for this share of the time or of the samples, or the graph is noise.
inline constexpr double kEdgeShare = 0.5;
/// By steps a link is the slow one when no other link held data for half as long.
inline constexpr double kLinkHeldContrast = 2.0;
/// Steps and arrivals without the host's own evidence show where time went, not why: no verdict of theirs is surer.
inline constexpr double kProfilerAloneConfidence = 0.7;
/// What was under way when the last rank entered arrives within this time: after it, nothing moving means silence.
inline constexpr int64_t kWireSettlesNs = 500 * kNsPerMs;
/// Of real loss one repeat in a hundred is needless (measured), of a receiver that is slow to acknowledge nearly all.
inline constexpr double kNeedlessShare = 0.5;
/// A receiver reports a needless repeat when it comes; connections are sampled ten times a second.
inline constexpr int64_t kNeedlessReportedNs = 200 * kNsPerMs;
/// A reset is followed by the errors it causes within a watchdog's patience; before a stall it may lie this long.
inline constexpr int64_t kResetBeforeNs = 500 * kNsPerMs;
/// Resets of one event come within this time of the first.
inline constexpr int64_t kResetsApartNs = kNsPerSecond;
/// A process that ends resets its connections at once; clocks of hosts may disagree by this much about what came first.
inline constexpr int64_t kDeathToResetNs = 10 * kNsPerMs;

/// A late rank's calls on another communicator are searched this far back from the stall.
inline constexpr int64_t kCallsElsewhere = 256;

// --- which cause, and how sure ---------------------------------------------------------------------------------

/// A rule that is less direct must cover this much more of a stall to be chosen instead.
inline constexpr double kDirectnessMargin = 0.15;
/// No evidence is complete: the most that a finding claims.
inline constexpr double kMaxConfidence = 0.99;
/// Of `unknown`: that time was lost is sure, where and why is not.
inline constexpr double kUnknownConfidence = 0.3;
/// Attempts to connect that failed while a set-up waited: something else may have delayed it, too.
inline constexpr double kInitFailureConfidence = 0.95;

// --- when the cost is a finding --------------------------------------------------------------------------------

/// Shares are taken over at least this long (or the whole recording), so that two hiccups close together are not
/// "half of the time".
inline constexpr int64_t kShareSpanNs = 10 * kNsPerSecond;

/// One timeout of 200 ms happens in good health (reordering at a tail); two, or a backed-off one, do not.
inline constexpr Gate kPacketLossGate{400 * kNsPerMs, 250 * kNsPerMs, 0.03};
/// A garbage collection or a page fault storm is over in 100 ms; small but steady lateness counts by its sum.
inline constexpr Gate kLateRankGate{150 * kNsPerMs, 250 * kNsPerMs, 0.05};
/// A time slice is 3 to 30 ms: one stall of this length needs a competitor that keeps the core.
inline constexpr Gate kCpuContentionGate{200 * kNsPerMs, 250 * kNsPerMs, 0.04};
/// Nobody stops a rank by accident: a debugger's or a freezer's stop counts early.
inline constexpr Gate kProcessStoppedGate{100 * kNsPerMs, 200 * kNsPerMs, 0.02};
/// A hang is a finding as soon as it is one.
inline constexpr Gate kHangGate{kHangNs, kHangNs, 0};
/// A timer that doubles twice is silent for more than half a second already.
inline constexpr Gate kPartitionGate{500 * kNsPerMs, 500 * kNsPerMs, 0.02};
/// Half of the link rate on a job that waits for its network a fifth of the time.
inline constexpr Gate kSlowLinkGate{500 * kNsPerMs, 500 * kNsPerMs, 0.10};
/// As for a slow link: the transfer takes longer, nothing is lost.
inline constexpr Gate kSlowReceiverGate{500 * kNsPerMs, 500 * kNsPerMs, 0.10};
/// Saying "slow, cause not seen" must be worth reading: clearly more than the noise of a shared machine.
inline constexpr Gate kUnknownGate{500 * kNsPerMs, kNsPerSecond, 0.10};

/// Severity "high": a fifth of the time, or one stall that a user notices ...
inline constexpr double kHighShare = 0.2;
inline constexpr int64_t kHighStallNs = kNsPerSecond;
/// ... and "medium": worth a look. Below, "low". Hangs and wrong data are critical.
inline constexpr double kMediumShare = 0.05;
/// The calls that a finding names, to look at with `explain --instance`.
inline constexpr size_t kExpensiveCalls = 3;

/// Beside explained findings, unexplained stalls below this share of their cost are residue, not a second fault; beside
/// a slow receiver, one that cost less than this share of it is its echo.
inline constexpr double kResidueShare = 0.25;

// --- when a live finding is reported ------------------------------------------------------------------------------

/// What only one look sees is the edge of the window: ends and evidence that were still to come.
inline constexpr int kLooksToReport = 2;
/// A finding is over when its last stall ended this long ago: a fault that hits a collective now and then goes on.
inline constexpr int64_t kLiveQuietNs = 4 * kNsPerSecond;
/// The same cause at the same place within this time is the same finding again.
inline constexpr int64_t kLiveReturnNs = 60 * kNsPerSecond;
/// A finding is written anew when its cost has grown by this factor: a hang of days is written some fifty times.
inline constexpr double kLiveGrowth = 1.2;
/// Keep this much history from before a finding's start, so that the baseline is not learned from the fault itself.
inline constexpr int64_t kHeldBeforeNs = 30 * kNsPerSecond;
/// Of a hang that outlasts the window, what began shortly before it and its begin (the evidence) are held, too.
inline constexpr int64_t kHeldBeforeHangNs = kNsPerSecond;
inline constexpr int64_t kHeldIntoHangNs = 20 * kNsPerSecond;

// --- bounds of the work ----------------------------------------------------------------------------------------

/// Evidence is read this long before a stall: the late rank's last work, the connection's state.
inline constexpr int64_t kEvidenceMarginNs = 500 * kNsPerMs;
/// Of one stall at most this much is examined; a hang of hours looks alike throughout.
inline constexpr int64_t kLongestStallNs = 120 * kNsPerSecond;
/// The most expensive stalls that are examined; beyond, more of the same would not change a verdict.
inline constexpr int64_t kMaxStalls = 100'000;
/// Rows of each evidence table kept in memory (about 64 bytes each).
inline constexpr int64_t kMaxEvidenceRows = 1'500'000;
/// Looks at Python stacks: a node records some tens of them a minute at most.
inline constexpr size_t kMostPythonStacks = 100'000;

}  // namespace stalltrace::analysis
