// SPDX-License-Identifier: Apache-2.0
#include "analysis/launches/judge_launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <span>

#include "analysis/launches/judge_parts.h"

namespace stalltrace::analysis {
namespace {

/// A finding on the same rank, from better evidence, gets this as evidence.
void add_or_join(Finding finding, Report& report) {
  const auto same = std::ranges::find_if(report.findings, [&](const Finding& other) {
    return other.cause == finding.cause && other.culprit && finding.culprit && finding.culprit->rank &&
           other.culprit->rank == finding.culprit->rank;
  });
  if (same == report.findings.end()) {
    report.findings.push_back(std::move(finding));
    return;
  }
  same->evidence.push_back({"log_line", 1, finding.summary, {}});
}

void note_limits(std::span<const RasReportView> reports, bool found, Report& report) {
  const RasReportView& newest = reports.back();
  report.notes.push_back(fmt::format("{}: {}", newest.file, newest.text));
  if (reports.size() > 1 && !newest.from_memory) {
    report.notes.push_back(
        fmt::format("the newest of {} reports of RAS is judged; older ones show what changed", reports.size()));
  }
  if (!found) {
    report.notes.push_back(
        fmt::format("{} counts launches: no rank {} is behind for certain, but a transfer that hangs shows in no count",
                    newest.counted_by(), newest.from_memory ? "that was read" : "that answers"));
  }
}

}  // namespace

Status add_launches(EventSource& source, Report& report) {
  ST_ASSIGN(const std::vector<RasReportView> reports, read_ras_reports(source));
  if (reports.empty()) {
    return {};
  }
  LaunchVerdicts verdicts;
  judge_processes(reports, verdicts);
  judge_numbers(reports, verdicts);
  judge_errors(reports, verdicts);
  std::ranges::move(verdicts.notes, std::back_inserter(report.notes));
  std::ranges::stable_sort(verdicts.findings, std::greater<>(), &Finding::severity);
  const bool found = !verdicts.findings.empty();
  for (Finding& finding : verdicts.findings) {
    add_or_join(std::move(finding), report);
  }
  note_limits(reports, found, report);
  if (report.nodes == 0) {
    std::set<std::string> hosts;
    for (const auto& [hash, comm] : reports.back().comms) {
      for (const auto& [number, rank] : comm.ranks) {
        hosts.insert(rank.host);
      }
    }
    hosts.erase("");
    report.nodes = std::ssize(hosts);
    report.range = {reports.front().time_ns, reports.back().time_ns};
    report.judged_range = report.range;
  }
  report.ends_unknown = true;
  report.healthy = report.findings.empty();
  return {};
}

}  // namespace stalltrace::analysis
