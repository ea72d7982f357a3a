// SPDX-License-Identifier: Apache-2.0
#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::report {
namespace {

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::array<std::string_view, 5> kSeverityColours{"\x1b[36m", "\x1b[36m", "\x1b[33m", "\x1b[31m",
                                                           "\x1b[1;31m"};
constexpr size_t kTextWidth = 100;

std::string rank_text(const std::optional<int32_t>& rank) {
  return rank ? fmt::format("rank {}", *rank) : "rank unknown";
}

std::string end_text(const std::optional<int32_t>& rank, const std::optional<Endpoint>& endpoint) {
  return endpoint ? fmt::format("{} ({})", rank_text(rank), format_endpoint(*endpoint)) : rank_text(rank);
}

}  // namespace

std::string_view severity_colour(Severity severity) { return kSeverityColours[static_cast<size_t>(severity)]; }

std::string where_text(const Finding& finding, bool attempts) {
  std::string where;
  if (finding.culprit && finding.culprit->pid == 0 && !finding.culprit->rank && !finding.culprit->node.empty()) {
    where = finding.culprit->node;
  } else if (finding.culprit && finding.culprit->pid == 0 && !finding.culprit->node.empty()) {
    where = fmt::format("{} on {}", rank_text(finding.culprit->rank), finding.culprit->node);
  } else if (finding.culprit && finding.culprit->pid == 0) {
    where = rank_text(finding.culprit->rank) + ", of which no process was recorded";
  } else if (finding.culprit) {
    where =
        fmt::format("{} on {}, pid {}", rank_text(finding.culprit->rank), finding.culprit->node, finding.culprit->pid);
  }
  if (finding.link) {
    where +=
        fmt::format("{}link {} -> {}", where.empty() ? "" : "; ", end_text(finding.link->src_rank, finding.link->src),
                    end_text(finding.link->dst_rank, finding.link->dst));
  }
  if (where.empty()) {
    where = "not known";
  }
  return attempts && finding.attempt ? fmt::format("{} (job attempt {})", where, *finding.attempt) : where;
}

std::string waiting_text(const Finding& finding) {
  return fmt::format("{} of waiting in {}", format_duration(static_cast<int64_t>(finding.stall_ms * kNsPerMs)),
                     count_of(finding.collectives_affected, "collective"));
}

std::string Page::paint(std::string_view text, std::string_view colour) const {
  return colour_ ? fmt::format("{}{}{}", colour, text, kReset) : std::string(text);
}

void Page::line(std::string_view text) { text_ += fmt::format("{}\n", text); }

void Page::field(std::string_view label, std::string_view text) {
  constexpr size_t kIndent = 12;
  const std::string shown = printable(text);
  std::string_view rest = shown;
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

}  // namespace stalltrace::report
