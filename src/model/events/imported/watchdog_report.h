// SPDX-License-Identifier: Apache-2.0
// What the watchdog of PyTorch's ProcessGroupNCCL prints when a collective did not end in time, as the text of a row of
// log_line. The sentences are those of torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (1.9 to 2.9), and of logs that
// people published.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stalltrace {

/// Numbers count the collectives of a process group on one rank, from 1 on (0 in some versions); -1 stands for none.
struct WatchdogReport {
  /// "0(default_pg)", "3": the same on all ranks of the group; empty: the line does not name it.
  std::string_view group;
  bool asked = false;       // a call did not end in time, mostly another rank's, and this one was asked for its state
  bool repeats = false;     // an exception that has an earlier line's text: its numbers are those of then
  bool unnumbered = false;  // a call without a number (-1) failed: how far the rank was does not follow
  std::optional<int64_t> waits_in;   // the call that did not end in time; none: asked, or no number is named
  std::optional<int64_t> enqueued;   // the last call that was handed to NCCL
  std::optional<int64_t> completed;  // the last call that ended on the device
  std::string_view op;               // "ALLREDUCE"; empty: not named
  std::optional<int64_t> elements;   // of its input
  std::optional<int64_t> waited_ms;
};

/// None for all other lines. Views point into `line`.
std::optional<WatchdogReport> read_watchdog_report(std::string_view line);

/// When the line was written, in UTC ns: by PyTorch's logger ("[E505 10:10:03.408271257 ProcessGroupNCCL.cpp:607]",
/// from 2.3 on; in the host's local time, which is taken for UTC), else by whatever stands before it. None: no time is
/// written. `near_ns`: a time from which the year is taken; the line is not later than a day after it.
std::optional<int64_t> time_in_watchdog_line(std::string_view line, int64_t near_ns);

}  // namespace stalltrace
