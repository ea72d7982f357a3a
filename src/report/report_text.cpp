// SPDX-License-Identifier: Apache-2.0
#include "report/report_text.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/clock.h"
#include "base/text.h"
#include "report/page.h"

namespace stalltrace::report {
namespace {

int64_t length_ns(const TimeRange& range) { return range.to_ns - range.from_ns; }

/// The window of --from and --to, where it is less than the recording.
bool is_part(const Report& report) {
  return report.judged_range.from_ns != report.range.from_ns || report.judged_range.to_ns != report.range.to_ns;
}

/// "+1.718s": as --from and --to take it, whole milliseconds, rounded down.
std::string offset_text(int64_t offset_ns) {
  const int64_t ms = offset_ns / kNsPerMs;
  return fmt::format("{}{}.{:03}s", offset_ns < 0 ? "-" : "+", std::abs(ms) / 1000, std::abs(ms) % 1000);
}

std::string when_text(const Finding& finding, const Report& report) {
  const auto since_start = [&](int64_t time_ns) { return time_ns - report.range.from_ns; };
  return fmt::format("{} to {} ({} to {} into the recording)", format_utc(finding.window.from_ns),
                     format_utc(finding.window.to_ns), offset_text(since_start(finding.window.from_ns)),
                     offset_text(since_start(finding.window.to_ns) + kNsPerMs - 1));
}

std::string cost_text(const Finding& finding, const Report& report) {
  if (finding.ended_job) {
    return "the job: it ended" + (finding.collectives_affected == 0 ? "" : ", after " + waiting_text(finding));
  }
  const int64_t judged_ns = report.judged == 0 ? 0 : length_ns(report.judged_range);
  const double whole_ms = static_cast<double>(judged_ns) / static_cast<double>(kNsPerMs);
  return fmt::format("{}{}", waiting_text(finding),
                     whole_ms > 0 ? fmt::format(", {:.0f} % of the {} time", 100 * finding.stall_ms / whole_ms,
                                                is_part(report) ? "judged" : "recorded")
                                  : "");
}

std::string looked_at(const Report& report) {
  const std::string whole =
      is_part(report) ? fmt::format(" (of {} in {})", report.collectives, format_duration(length_ns(report.range)))
                      : "";
  return fmt::format("{} collective{} of {} rank{} on {} node{} in {}{}", report.judged, report.judged == 1 ? "" : "s",
                     report.ranks, report.ranks == 1 ? "" : "s", report.nodes, report.nodes == 1 ? "" : "s",
                     format_duration(report.judged == 0 ? 0 : length_ns(report.judged_range)), whole);
}

void write_finding(Page& page, const Report& report, const Finding& finding, size_t number) {
  page.line();
  page.line(fmt::format("{} {} ({}, confidence {:.0f} %)", page.paint(fmt::format("[{}]", number), kBold),
                        page.paint(to_text(finding.cause), severity_colour(finding.severity)),
                        to_text(finding.severity), 100 * finding.confidence));
  page.field("what", printable(finding.summary));
  page.field("where", printable(where_text(finding)));
  page.field("when", when_text(finding, report));
  page.field("cost", cost_text(finding, report));
  bool first = true;
  for (const Evidence& evidence : finding.evidence) {
    page.field(first ? "evidence" : "", printable(fmt::format("{} ({})", evidence.text, evidence.kind)));
    first = false;
  }
  page.field("do", printable(finding.remedy));
}

void write_reservations(Page& page, const Report& report) {
  if (!report.losses.empty() || !report.notes.empty()) {
    page.line();
  }
  for (const Loss& loss : report.losses) {
    const auto name = report.node_names.find(loss.node_id);
    page.field("lost", printable(fmt::format(
                           "{} event{} from {} ({})", loss.count, loss.count == 1 ? "" : "s", loss.source,
                           name == report.node_names.end() ? fmt::format("node {}", loss.node_id) : name->second)));
  }
  for (const std::string& note : report.notes) {
    page.field("note", printable(note));
  }
}

std::string verdict_without_findings(const Page& page, const Report& report) {
  if (report.judged == 0) {
    return fmt::format(
        "{} {}.", page.paint("Nothing to judge:", kBold),
        report.collectives == 0 ? "the recording holds no collectives" : "no collective is between --from and --to");
  }
  if (report.failed_ranks > 0) {
    return fmt::format(
        "{} but no stall worth a finding in {}.",
        page.paint(fmt::format("{} rank{} failed,", report.failed_ranks, report.failed_ranks == 1 ? "" : "s"), kBold),
        looked_at(report));
  }
  return fmt::format("{} no stall worth a finding in {}.", page.paint("Healthy:", kGreen), looked_at(report));
}

}  // namespace

std::string report_to_text(const Report& report, const TextOptions& options) {
  Page page(options.colour);
  if (report.findings.empty()) {
    page.line(verdict_without_findings(page, report));
  } else {
    const Finding& first = report.findings.front();
    page.line(page.paint(printable(first.summary), kBold));
    page.line(fmt::format("{} finding{} in {}.", report.findings.size(), report.findings.size() == 1 ? "" : "s",
                          looked_at(report)));
    for (size_t i = 0; i < report.findings.size(); ++i) {
      write_finding(page, report, report.findings[i], i + 1);
    }
  }
  write_reservations(page, report);
  return page.take();
}

}  // namespace stalltrace::report
