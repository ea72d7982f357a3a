// SPDX-License-Identifier: Apache-2.0
// Which stalls are hangs, and what ended a job. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// What healthy set-ups, and pauses that a log shows, take now and then. Of two reports of NCCL's RAS, that far apart,
/// a rank that launched nothing in between stands still: such reports are asked for where a job seems to hang.
inline constexpr int64_t kLongWaitNs = 30 * kNsPerSecond;
/// An absent rank that is alive may still come, and nothing proves a hang, until the others have waited for this long
/// (a first checkpoint to a file server and the start of a data loader take more than a minute) ...
inline constexpr int64_t kBlockedWaitNs = 120 * kNsPerSecond;
/// ... and for this many times the longest earlier wait on the same communicator, as for an evaluation on one rank.
inline constexpr int64_t kLongestWaits = 3;
/// An absent rank that computes, or devices that all ranks wait for while data may still move, prove no hang for this
/// long: first evaluations, compilations and checkpoints take minutes. PyTorch ends a call of NCCL after 10 min.
inline constexpr int64_t kUnprovenWaitNs = 600 * kNsPerSecond;
/// Unless all samples of its Python stack, this many at least and over kBlockedWaitNs, were at one line: it does not go
/// on. Within a shorter time one line may be one long call, such as the write of a checkpoint.
inline constexpr int64_t kFewestSamplesAtALine = 3;
/// Maximum number of instances before a wait that are searched for the longest wait.
inline constexpr int64_t kMostWaitsSearched = 100'000;

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

/// Processes that end within this time of each other ended for one reason: watchdogs and launchers take up to that
/// long.
inline constexpr int64_t kDeathsApartNs = 60 * kNsPerSecond;

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

}  // namespace stalltrace::analysis
