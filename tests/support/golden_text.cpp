// SPDX-License-Identifier: Apache-2.0
#include "tests/support/golden_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/file.h"
#include "base/text.h"
#include "tests/support/source_tree.h"

namespace stalltrace::golden {
namespace {

constexpr std::string_view kHeading = "== ";

/// "src/store" of ".../src/store/write/writer_test.cpp", "lab" of "lab/nccl/tests/x_test.cpp".
std::string folder_of(std::string_view file) {
  const std::vector<std::string_view> parts = split(file, '/');
  constexpr std::array<std::string_view, 4> kTops = {"src", "lab", "plugin", "tests"};
  const auto top =
      std::ranges::find_if(parts, [&](std::string_view part) { return std::ranges::find(kTops, part) != kTops.end(); });
  if (top == parts.end()) {
    return "tests";
  }
  return *top == "src" && top + 1 != parts.end() ? fmt::format("src/{}", top[1]) : std::string(*top);
}

std::string masked(std::string text, const Masks& masks) {
  for (const auto& [what, by] : masks) {
    for (size_t at = text.find(what); !what.empty() && at != std::string::npos; at = text.find(what, at + by.size())) {
      text.replace(at, what.size(), by);
    }
  }
  return text;
}

/// The number of texts that the running test has expected, this one included. A test with parameters begins anew for
/// each of them.
int next_of(const testing::TestInfo& test) {
  static std::pair<const testing::TestInfo*, int> last;
  last = last.first == &test ? std::pair{&test, last.second + 1} : std::pair{&test, 1};
  return last.second;
}

}  // namespace

std::map<std::string, std::string> sections(const std::string& path) {
  std::map<std::string, std::string> found;
  const std::string content = read_file(source_path(path)).value_or("");
  std::string* section = nullptr;
  for (const std::string_view line : split(content, '\n')) {
    if (line.starts_with(kHeading)) {
      section = &found[std::string(line.substr(kHeading.size()))];
    } else if (section != nullptr && !line.empty()) {
      *section += std::string(line) + "\n";
    }
  }
  return found;
}

void expect_section(const std::string& path, const std::string& name, const std::string& text) {
  std::map<std::string, std::string> known = sections(path);
  std::string ended;  // the file has no empty lines within a section
  for (const std::string_view line : split(text, '\n')) {
    ended += line.empty() ? "" : std::string(line) + "\n";
  }
  if (std::getenv("STALLTRACE_UPDATE_GOLDEN") != nullptr) {
    known[name] = ended;
    std::string content;
    for (const auto& [heading, lines] : known) {
      content += fmt::format("{}{}\n{}\n", kHeading, heading, lines);
    }
    ASSERT_TRUE(write_file(source_path(path), content).has_value()) << source_path(path);
  }
  EXPECT_EQ(ended, known[name]) << path << ", section " << name
                                << ": rewrite with STALLTRACE_UPDATE_GOLDEN=1 if this is meant";
}

void expect_text(std::string_view text, const Masks& masks) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  ASSERT_NE(test, nullptr);
  const auto without_parameter = [](std::string_view part) { return part.substr(0, part.find('/')); };
  const std::string_view suite = test->test_suite_name();  // "Instantiation/Suite" of a test with parameters
  std::string name = fmt::format("{}.{}", suite.substr(suite.rfind('/') + 1), without_parameter(test->name()));
  if (const int number = next_of(*test); number > 1) {
    name += fmt::format(" {}", number);
  }
  expect_section(folder_of(test->file()) + "/testdata/texts.txt", name, masked(std::string(text), masks));
}

}  // namespace stalltrace::golden
