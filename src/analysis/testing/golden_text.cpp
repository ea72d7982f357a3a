// SPDX-License-Identifier: Apache-2.0
#include "analysis/testing/golden_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr std::string_view kHeading = "== ";

std::string path() { return std::string(STALLTRACE_SOURCE_DIR) + "/src/analysis/testing/finding_texts.txt"; }

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

std::map<std::string, std::string> golden_texts() {
  std::map<std::string, std::string> sections;
  const std::string content = read_file(path()).value_or("");
  std::string* section = nullptr;
  for (const std::string_view line : split(content, '\n')) {
    if (line.starts_with(kHeading)) {
      section = &sections[std::string(line.substr(kHeading.size()))];
    } else if (section != nullptr && !line.empty()) {
      *section += std::string(line) + "\n";
    }
  }
  return sections;
}

void expect_golden_text(const std::string& name, const Finding& finding) {
  std::map<std::string, std::string> sections = golden_texts();
  if (std::getenv("STALLTRACE_UPDATE_GOLDEN") != nullptr) {
    sections[name] = render(finding);
    std::string content;
    for (const auto& [heading, text] : sections) {
      content += fmt::format("{}{}\n{}\n", kHeading, heading, text);
    }
    ASSERT_TRUE(write_file(path(), content).has_value());
  }
  EXPECT_EQ(render(finding), sections[name]) << "rewrite with STALLTRACE_UPDATE_GOLDEN=1 if this is meant";
}

}  // namespace stalltrace::analysis
