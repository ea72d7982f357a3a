// SPDX-License-Identifier: Apache-2.0
#include "report/report_text.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/text.h"
#include "report/page.h"

namespace stalltrace {
namespace {

int64_t recorded_ns(const Report& report) {
  return report.collectives == 0 ? 0 : report.range.to_ns - report.range.from_ns;
}

std::string when_text(const Finding& finding, const Report& report) {
  const auto since_start = [&](int64_t time_ns) { return format_duration(time_ns - report.range.from_ns); };
  return fmt::format("{} to {} (+{} to +{} into the recording)", format_utc(finding.window.from_ns),
                     format_utc(finding.window.to_ns), since_start(finding.window.from_ns),
                     since_start(finding.window.to_ns));
}

std::string cost_text(const Finding& finding, const Report& report) {
  const double whole_ms = static_cast<double>(recorded_ns(report)) / static_cast<double>(kNsPerMs);
  return fmt::format(
      "{} of waiting in {} collective{}{}", format_duration(static_cast<int64_t>(finding.stall_ms * kNsPerMs)),
      finding.collectives_affected, finding.collectives_affected == 1 ? "" : "s",
      whole_ms > 0 ? fmt::format(", {:.0f} % of the recorded time", 100 * finding.stall_ms / whole_ms) : "");
}

std::string looked_at(const Report& report) {
  return fmt::format("{} collective{} of {} rank{} on {} node{} in {}", report.collectives,
                     report.collectives == 1 ? "" : "s", report.ranks, report.ranks == 1 ? "" : "s", report.nodes,
                     report.nodes == 1 ? "" : "s", format_duration(recorded_ns(report)));
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

}  // namespace

std::string report_to_text(const Report& report, const TextOptions& options) {
  Page page(options.colour);
  if (report.findings.empty()) {
    page.line(
        report.collectives == 0
            ? fmt::format("{} the recording holds no collectives.", page.paint("Nothing to judge:", kBold))
            : fmt::format("{} no stall worth a finding in {}.", page.paint("Healthy:", kGreen), looked_at(report)));
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

}  // namespace stalltrace
