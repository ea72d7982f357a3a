// SPDX-License-Identifier: Apache-2.0
// The rows of log_line that say something of the end of a process. Internal to analysis/order/processes.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/events/imported/process_report.h"
#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

struct ProcessLine {
  LogLine row;
  ProcessReport report;  // views into row.text
};

using ProcessLines = std::vector<const ProcessLine*>;

class ProcessLog {
 public:
  static Result<std::unique_ptr<ProcessLog>> read(EventSource& source);

  [[nodiscard]] ProcessLines of(ProcessReport::Kind kind) const;
  /// True if the watchdog of the line's rank had reported a timeout before it in the same file: what comes then may
  /// follow from that.
  [[nodiscard]] bool after_timeout(const ProcessLine& line) const;
  /// Any rank's.
  [[nodiscard]] bool has_timeouts() const { return !timeouts_.empty(); }
  [[nodiscard]] Culprit culprit(const ProcessLine& line) const;

 private:
  std::vector<std::unique_ptr<ProcessLine>> lines_;
  std::map<std::pair<std::string, int32_t>, int64_t> timeouts_;  // by file and rank, the first line
  std::map<NodeId, Node> nodes_;
};

std::set<int32_t> ranks_of(const ProcessLines& lines);
/// "rank 1", "ranks 0 and 2"; without any, that of the first line: "pid 42 on node1".
std::string who_text(const ProcessLog& log, const ProcessLines& lines);
/// "rank1.log:12: CUDA error: misaligned address", at most 300 bytes of the line.
std::string quote_of(const ProcessLine& line);
/// With window, quotes, and the culprit if it is one rank.
Finding finding_on(const ProcessLog& log, const ProcessLines& lines, Cause cause, double confidence);

/// Processes that torchrun saw end.
void judge_ended_processes(const ProcessLog& log, std::vector<Finding>& findings, std::vector<std::string>& notes);

}  // namespace stalltrace::analysis
