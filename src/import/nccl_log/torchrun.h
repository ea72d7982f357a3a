// SPDX-License-Identifier: Apache-2.0
// What torchrun prints of processes that ended: one line for the first, and at its end a table of all. Pure. Internal
// to import/nccl_log.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/events/imported/process_report.h"

namespace stalltrace::import {

/// True for "failed (exitcode: -9) local_rank: 3 (pid: 4711) of binary: ..." and for the head of the table's last part.
bool is_torchrun_failure(std::string_view line);

/// A failure, with the text of its row.
struct TorchrunFailure {
  std::optional<int32_t> rank;
  std::string text;
};

class TorchrunFailures {
 public:
  /// Lines of a file, in order. A failure once its line, or the line of the table with its exit code, was given.
  std::optional<TorchrunFailure> take(std::string_view line);

 private:
  bool in_table_ = false;
  bool first_ = false;  // below "Root Cause"
  std::optional<int32_t> rank_;
  std::optional<int32_t> local_rank_;
  std::string host_;
  std::string time_;
};

}  // namespace stalltrace::import
