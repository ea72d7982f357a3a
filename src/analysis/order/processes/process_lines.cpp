// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/processes/process_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/rank_numbers.h"
#include "base/text.h"
#include "model/events/imported/watchdog_report.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostProcessLines = 10'000;  // of a kind
constexpr size_t kProcessLinesQuoted = 4;
constexpr size_t kLongestProcessQuote = 300;

}  // namespace

Result<std::unique_ptr<ProcessLog>> ProcessLog::read(EventSource& source) {
  auto log = std::make_unique<ProcessLog>();
  ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
  for (const Node& node : nodes) {
    log->nodes_[node.node_id] = node;
  }
  std::map<ProcessReport::Kind, size_t> kept;
  ST_TRY(source.log_lines({}, [&](const LogLine& row) {
    if (row.kind == LogKind::kTimeout && row.rank) {
      const auto report = read_watchdog_report(row.text);
      if (report && !report->asked) {
        log->timeouts_.try_emplace({row.file, *row.rank}, row.line);
      }
    }
    if (row.kind != LogKind::kWarning) {
      return;
    }
    auto one = std::make_unique<ProcessLine>(ProcessLine{row, {}});
    if (auto report = read_process_report(one->row.text); report && kept[report->kind]++ < kMostProcessLines) {
      one->report = std::move(*report);
      log->lines_.push_back(std::move(one));
    }
  }));
  return log;
}

ProcessLines ProcessLog::of(ProcessReport::Kind kind) const {
  ProcessLines found;
  for (const auto& one : lines_) {
    if (one->report.kind == kind) {
      found.push_back(one.get());
    }
  }
  return found;
}

bool ProcessLog::after_timeout(const ProcessLine& line) const {
  const auto timeout = line.row.rank ? timeouts_.find({line.row.file, *line.row.rank}) : timeouts_.end();
  return timeout != timeouts_.end() && timeout->second < line.row.line;
}

Culprit ProcessLog::culprit(const ProcessLine& line) const {
  const auto node = nodes_.find(line.row.node_id);
  const bool named = line.row.pid != 0 && node != nodes_.end() && !lacks(node->second, kLacksPids);
  return {named ? node->second.name : "", line.row.rank, named ? line.row.pid : 0};
}

std::set<int32_t> ranks_of(const ProcessLines& lines) {
  std::set<int32_t> ranks;
  for (const ProcessLine* line : lines) {
    if (line->row.rank) {
      ranks.insert(*line->row.rank);
    }
  }
  return ranks;
}

std::string who_text(const ProcessLog& log, const ProcessLines& lines) {
  const std::set<int32_t> ranks = ranks_of(lines);
  if (!ranks.empty()) {
    return ranks_text({ranks.begin(), ranks.end()});
  }
  const Culprit who = log.culprit(*lines.front());
  return who.pid == 0 ? "a process of which no rank is known" : fmt::format("pid {} on {}", who.pid, who.node);
}

std::string quote_of(const ProcessLine& line) {
  return fmt::format("{}:{}: {}", base_name(line.row.file), line.row.line,
                     trim(std::string_view(line.row.text).substr(0, kLongestProcessQuote)));
}

Finding finding_on(const ProcessLog& log, const ProcessLines& lines, Cause cause, double confidence) {
  Finding finding{.cause = cause, .severity = Severity::kCritical, .confidence = confidence};
  finding.cost_known = false;
  finding.window = {lines.front()->row.timestamp_ns, lines.front()->row.timestamp_ns};
  for (const ProcessLine* line : lines) {
    finding.window.from_ns = std::min(finding.window.from_ns, line->row.timestamp_ns);
    finding.window.to_ns = std::max(finding.window.to_ns, line->row.timestamp_ns);
  }
  if (ranks_of(lines).size() == 1) {
    const auto ranked = std::ranges::find_if(lines, [](const ProcessLine* one) { return one->row.rank.has_value(); });
    finding.culprit = log.culprit(**ranked);
  }
  for (size_t i = 0; i < std::min(lines.size(), kProcessLinesQuoted); ++i) {
    finding.evidence.push_back({"log_line", 1, quote_of(*lines[i]), {}});
  }
  return finding;
}

}  // namespace stalltrace::analysis
