// SPDX-License-Identifier: Apache-2.0
#include "report/findings_text.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/text.h"
#include "report/page.h"

namespace stalltrace::report {

std::string findings_to_text(std::span<const Finding> findings, const TextOptions& options) {
  Page page(options.colour);
  for (size_t i = 0; i < findings.size(); ++i) {
    const Finding& finding = findings[i];
    page.line();
    page.line(fmt::format("{} {} ({}, confidence {:.0f} %)", page.paint(fmt::format("[{}]", i + 1), kBold),
                          page.paint(to_text(finding.cause), severity_colour(finding.severity)),
                          to_text(finding.severity), 100 * finding.confidence));
    page.field("what", finding.summary);
    page.field("where", where_text(finding, false));
    page.field("since", fmt::format("{} or earlier", format_utc(finding.window.from_ns)));
    bool first = true;
    for (const Evidence& evidence : finding.evidence) {
      page.field(first ? "evidence" : "", fmt::format("{} ({})", evidence.text, evidence.kind));
      first = false;
    }
    page.field("do", finding.remedy);
  }
  return page.take();
}

}  // namespace stalltrace::report
