// SPDX-License-Identifier: Apache-2.0
// What TCP shows of a slow or broken transfer. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

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
/// The most confidence in a partition that one end alone shows: a host that lost its power is as silent.
inline constexpr double kOneEndConfidence = 0.8;
/// The receiver must count more than this many bytes beyond the acknowledged ones to prove that data arrive: a SYN and
/// a FIN count as one each. A message may be as short as 48 bytes (Gloo's header).
inline constexpr uint64_t kArrivedBytes = 2;
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

/// Data in flight when the last rank entered arrives within this time: later, an idle connection means silence.
inline constexpr int64_t kInFlightArrivesNs = 500 * kNsPerMs;
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

}  // namespace stalltrace::analysis
