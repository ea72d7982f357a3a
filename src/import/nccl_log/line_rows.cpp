// SPDX-License-Identifier: Apache-2.0
#include "import/nccl_log/line_rows.h"

#include <string>

#include "model/events/imported/nccl_return.h"

namespace stalltrace::import {
namespace {

constexpr size_t kLongestText = 1024;  // NCCL's own limit of a message
// Lines that are kept as rows, of each kind: many transports leave the warnings and timeouts of a process their rows.
constexpr size_t kMostLinesOfProcess = 2048;
constexpr size_t kMostLinesOfKind = 200'000;

}  // namespace

std::optional<LogKind> kept_kind(const LogText& text) {
  if (text.level == LogText::Level::kWarn) {
    return LogKind::kWarning;
  }
  if (text.level == LogText::Level::kVersion) {
    return LogKind::kVersion;
  }
  if (text.level != LogText::Level::kInfo) {
    return std::nullopt;
  }
  if (text.message.starts_with("Channel ") && text.message.contains(" via ")) {
    return LogKind::kTransport;
  }
  const bool interface = text.message.starts_with("NET/") || text.message.starts_with("Bootstrap : Using") ||
                         text.message.starts_with("Bootstrap: Using") || text.message.starts_with("Using network");
  return interface ? std::optional(LogKind::kInterface) : std::nullopt;
}

bool is_failed_return(const LogText& text) {
  return text.level == LogText::Level::kInfo && nccl_return_in(text.message).has_value();
}

void LineRows::add(LogNode& node, const LoggedFile& file, int64_t number, int64_t time_ns, const LoggedProcess* process,
                   LogKind kind, std::string_view text) {
  node.see(time_ns);
  const int32_t pid = process == nullptr ? 0 : process->pid;
  if (kind != LogKind::kEnd && kind != LogKind::kCut) {
    const int32_t rank = process == nullptr ? -1 : process->rank.value_or(-1);  // a watchdog's pid may be unknown
    if (++of_process_[{pid, rank, kind}] > kMostLinesOfProcess || of_kind_[kind] >= kMostLinesOfKind) {
      ++node.losses["log:lines_not_kept"];
      return;
    }
    ++of_kind_[kind];
  }
  sink_.accept(LogLine{.node_id = node.row.node_id,
                       .timestamp_ns = time_ns,
                       .pid = pid,
                       .rank = process == nullptr ? std::nullopt : process->rank,
                       .kind = kind,
                       .line = number,
                       .file = file.path,
                       .text = std::string(text.substr(0, kLongestText))});
}

}  // namespace stalltrace::import
