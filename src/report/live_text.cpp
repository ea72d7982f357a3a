// SPDX-License-Identifier: Apache-2.0
#include "report/live_text.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/text.h"
#include "report/page.h"

namespace stalltrace::report {
namespace {

std::string end_text(const Finding& finding, int64_t explained_by) {
  if (finding.ended_job && explained_by == 0) {
    return "is over: the job ended";
  }
  const std::string lasted = format_duration(finding.window.to_ns - finding.window.from_ns);
  const std::string why = explained_by == 0 ? "is over" : fmt::format("is explained by [{}]", explained_by);
  return fmt::format("{} after {}: {}", why, lasted, waiting_text(finding));
}

}  // namespace

std::string live_finding_to_text(LiveHeadline headline, int64_t now_ns, int64_t number, const Finding& finding,
                                 int64_t explained_by, const TextOptions& options) {
  Page page(options.colour);
  const std::string cause = page.paint(to_text(finding.cause), severity_colour(finding.severity));
  const std::string head = page.paint(fmt::format("[{}]", number), kBold);
  if (headline == LiveHeadline::kEnded) {
    page.line(fmt::format("{} {} {} {}", format_utc(now_ns), head, cause, end_text(finding, explained_by)));
    return page.take();
  }
  const std::string_view change = headline == LiveHeadline::kCameBack   ? " is back"
                                  : headline == LiveHeadline::kWorsened ? " is worse"
                                                                        : "";
  page.line(fmt::format("{} {} {}{} ({}, confidence {:.0f} %)", format_utc(now_ns), head, cause, change,
                        to_text(finding.severity), 100 * finding.confidence));
  page.field("what", printable(finding.summary));
  page.field("where", printable(where_text(finding, finding.attempt.value_or(1) > 1)));
  page.field("since", format_utc(finding.window.from_ns));
  if (headline == LiveHeadline::kBegan) {
    for (size_t i = 0; i < finding.evidence.size(); ++i) {
      page.field(i == 0 ? "evidence" : "",
                 printable(fmt::format("{} ({})", finding.evidence[i].text, finding.evidence[i].kind)));
    }
    page.field("do", printable(finding.remedy));
  }
  return page.take();
}

}  // namespace stalltrace::report
