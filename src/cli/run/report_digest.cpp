// SPDX-License-Identifier: Apache-2.0
#include "cli/run/report_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace stalltrace::cli {
namespace {

std::string end_text(const std::optional<int32_t>& rank, const std::optional<Endpoint>& endpoint) {
  return rank ? fmt::format("{}", *rank) : endpoint ? endpoint->address : "";
}

std::string digest_of(const Finding& finding) {
  std::string text = fmt::format("{} {}", to_text(finding.cause), to_text(finding.severity));
  if (finding.culprit) {
    text +=
        fmt::format(" of {} {} {}", finding.culprit->node, finding.culprit->rank.value_or(-1), finding.culprit->pid);
  }
  if (finding.link) {
    text += fmt::format(" from {} to {}", end_text(finding.link->src_rank, finding.link->src),
                        end_text(finding.link->dst_rank, finding.link->dst));
  }
  const bool located = std::ranges::find(finding.evidence, "python_stack", &Evidence::kind) != finding.evidence.end();
  return text + (located ? ", located" : "");
}

}  // namespace

std::string digest_of(const Report& report) {
  if (report.findings.empty()) {
    return "";
  }
  std::vector<std::string> lines;
  for (const Finding& finding : report.findings) {
    lines.push_back(digest_of(finding));
  }
  std::ranges::sort(lines);
  uint64_t hash = kSplitmixSeed;
  for (const std::string& line : lines) {
    hash = splitmix64_text(line, hash);
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace stalltrace::cli
