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
  bool asked = false;                // another rank's call did not end in time, and this one was asked for its state
  std::optional<int64_t> waits_in;   // the call that did not end in time; none: asked, or no number is named
  std::optional<int64_t> enqueued;   // the last call that was handed to NCCL
  std::optional<int64_t> completed;  // the last call that ended on the device
  std::string_view op;               // "ALLREDUCE"; empty: not named
  std::optional<int64_t> elements;   // of its input
  std::optional<int64_t> waited_ms;
};

/// None for all other lines. Views point into `line`.
std::optional<WatchdogReport> read_watchdog_report(std::string_view line);

}  // namespace stalltrace
