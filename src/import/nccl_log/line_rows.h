// SPDX-License-Identifier: Apache-2.0
// Which lines of logs are kept as rows of log_line, and how many. Internal to import/nccl_log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "import/nccl_log/log_nodes.h"
#include "import/nccl_log/log_text.h"
#include "import/nccl_log/survey.h"
#include "model/events.h"
#include "model/source.h"

namespace stalltrace::import {

/// Of a line of NCCL's; none: it is not kept.
std::optional<LogKind> kept_kind(const LogText& text);
/// "misc/socket.cc:564 -> 2": a function of NCCL returned an error. Those that called it print the same.
bool is_failed_return(const LogText& text);

class LineRows {
 public:
  /// `sink` must outlive the object.
  explicit LineRows(EventSink& sink) : sink_(sink) {}

  void begin_file() { of_process_.clear(); }
  /// `number`: of the line. `process`: null: not known; one with a rank alone is allowed. Beyond the bounds it is a
  /// loss of the node, except for the line that ends a process.
  void add(LogNode& node, const LoggedFile& file, int64_t number, int64_t time_ns, const LoggedProcess* process,
           LogKind kind, std::string_view text);

 private:
  EventSink& sink_;
  std::map<std::tuple<int32_t, int32_t, LogKind>, size_t> of_process_;  // pid, rank; in the current file
  std::map<LogKind, size_t> of_kind_;
};

}  // namespace stalltrace::import
