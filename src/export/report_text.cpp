// SPDX-License-Identifier: Apache-2.0
#include "export/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/text.h"

namespace stalltrace {
namespace {

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::array<std::string_view, 4> kSeverityColours{"\x1b[36m", "\x1b[33m", "\x1b[31m", "\x1b[1;31m"};
constexpr size_t kTextWidth = 100;

/// Names come from processes: nothing they contain may drive the terminal.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      c = '?';
    }
  }
  return text;
}

class Page {
 public:
  explicit Page(bool colour) : colour_(colour) {}

  std::string paint(std::string_view text, std::string_view colour) const {
    return colour_ ? fmt::format("{}{}{}", colour, text, kReset) : std::string(text);
  }
  void line(std::string_view text = {}) { text_ += fmt::format("{}\n", text); }
  /// "  label     text", wrapped under itself.
  void field(std::string_view label, const std::string& text) {
    constexpr size_t kIndent = 12;
    std::string_view rest = text;
    bool first = true;
    while (!rest.empty() || first) {
      size_t cut = rest.size();
      if (cut > kTextWidth - kIndent) {
        const size_t space = rest.rfind(' ', kTextWidth - kIndent);
        cut = space == std::string_view::npos || space == 0 ? rest.find(' ') : space;
        cut = std::min(cut, rest.size());
      }
      text_ += fmt::format("  {:<10}{}\n", first ? label : "", rest.substr(0, cut));
      rest.remove_prefix(std::min(rest.size(), cut + 1));
      first = false;
    }
  }
  std::string take() { return std::move(text_); }

 private:
  bool colour_;
  std::string text_;
};

std::string rank_text(const std::optional<int32_t>& rank) {
  return rank ? fmt::format("rank {}", *rank) : "rank unknown";
}

std::string end_text(const std::optional<int32_t>& rank, const std::optional<Endpoint>& endpoint) {
  return endpoint ? fmt::format("{} ({})", rank_text(rank), format_endpoint(*endpoint)) : rank_text(rank);
}

std::string where_text(const Finding& finding) {
  std::string where;
  if (finding.culprit) {
    where =
        fmt::format("{} on {}, pid {}", rank_text(finding.culprit->rank), finding.culprit->node, finding.culprit->pid);
  }
  if (finding.link) {
    where +=
        fmt::format("{}link {} -> {}", where.empty() ? "" : "; ", end_text(finding.link->src_rank, finding.link->src),
                    end_text(finding.link->dst_rank, finding.link->dst));
  }
  return where.empty() ? "not known" : where;
}

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
                        page.paint(to_text(finding.cause), kSeverityColours[static_cast<size_t>(finding.severity)]),
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
    page.field("lost", printable(fmt::format("{} event{} from {} (node {})", loss.count, loss.count == 1 ? "" : "s",
                                             loss.source, loss.node_id)));
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
    const Finding& dearest = report.findings.front();
    page.line(page.paint(printable(dearest.summary), kBold));
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
