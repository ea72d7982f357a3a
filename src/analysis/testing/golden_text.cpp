// SPDX-License-Identifier: Apache-2.0
#include "analysis/testing/golden_text.h"

#include <fmt/format.h>

#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr const char* kPath = "src/analysis/testing/finding_texts.txt";

std::string rank_text(const std::optional<int32_t>& rank) { return rank ? fmt::format("rank {}", *rank) : "?"; }

std::string render(const Finding& finding) {
  std::string text = fmt::format("cause: {}", to_text(finding.cause));
  if (finding.culprit) {
    text += fmt::format(", {}", rank_text(finding.culprit->rank));
  }
  if (finding.link) {
    text += fmt::format(", {} -> {}", rank_text(finding.link->src_rank), rank_text(finding.link->dst_rank));
  }
  text += "\n" + finding.summary + "\n";
  for (const Evidence& evidence : finding.evidence) {
    text += fmt::format("- {} ({}, {})\n", evidence.text, evidence.kind, evidence.count);
  }
  return text + "do: " + finding.remedy + "\n";
}

}  // namespace

std::map<std::string, std::string> golden_texts() { return golden::sections(kPath); }

void expect_golden_text(const std::string& name, const Finding& finding) {
  golden::expect_section(kPath, name, render(finding));
}

}  // namespace stalltrace::analysis
