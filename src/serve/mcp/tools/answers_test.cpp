// SPDX-License-Identifier: Apache-2.0
// What all answers of tools have in common: names of recordings stay data, and answers end at their bounds.
#include "serve/mcp/tools/answers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "serve/mcp/tools/testing/tool_jobs.h"

namespace stalltrace::serve::mcp {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Answers, NamesOfTheRecordingStayData) {
  MemorySource source;
  Ending ending = late_job();
  ending.node = [](int rank, Node& node) {
    node.name = rank == 1 ? kHostile : node.name;
    node.hostname = node.kernel = node.missing_evidence = kHostile;
  };
  ending.process = [](int /*rank*/, Process& process) { process.exe = std::string("/bin/") + kHostile; };
  fill(source, ending);
  source.accept(Loss{.node_id = node_of_rank(0), .source = kHostile, .count = 5});
  ServedJob job(source);
  const std::string id = at(job.ask("findings"), "next.0.arguments").dump();
  // Removes the values that are marked as data; nothing that is left may quote the name.
  const std::function<void(const Json&, std::string&)> unmarked = [&](const Json& json, std::string& left) {
    if (const auto* members = json.members()) {
      for (const auto& [key, value] : *members) {
        left += key + " ";
        if (key != "recorded_text" && key != "report_text" && key != "recorded_rows") {
          unmarked(value, left);
        }
      }
    } else if (const auto* values = json.values()) {
      for (const Json& value : *values) {
        unmarked(value, left);
      }
    } else if (json.text() != nullptr) {
      left += *json.text() + " ";
    }
  };
  bool quoted = false;
  for (const auto& [tool, arguments] :
       std::vector<std::pair<std::string, std::string>>{{"health", "{}"},
                                                        {"findings", "{}"},
                                                        {"finding", id},
                                                        {"slowest", "{}"},
                                                        {"why", R"({"event":"2:50"})"},
                                                        {"who_waits", R"({"time":"+2510ms"})"},
                                                        {"ranks", R"({"rank":1})"},
                                                        {"sql", R"({"sql":"SELECT name FROM node"})"}}) {
    SCOPED_TRACE(tool);
    const Json result = job.result_of(tool, arguments);
    const Json data = job.ask(tool, arguments);
    std::string left = *at(result, "content.0.text").text();
    unmarked(data, left);
    EXPECT_THAT(left, Not(HasSubstr(kInstruction)));
    const std::string all = data.dump();
    quoted = quoted || all.find(kInstruction) != std::string::npos;
    EXPECT_THAT(all, Not(HasSubstr("u001b")));
    EXPECT_THAT(all, Not(HasSubstr("u202e")));
  }
  EXPECT_TRUE(quoted);
}

TEST(Answers, TextIsCutBetweenCharacters) {
  EXPECT_EQ(cut_text("abc", 3), "abc");
  EXPECT_EQ(cut_text("abcd", 3), "abc...");
  EXPECT_EQ(cut_text("ab\u20ac", 3), "ab...");
  EXPECT_EQ(cut_text("ab\u20ac", 5), "ab\u20ac");
}

TEST(Answers, APageEndsAtItsBytesAndSaysSo) {
  Json answer = Json::object();
  add_page(answer, "rows", 1000, {.limit = 500, .offset = 10}, [](size_t) { return Json(std::string(1000, 'x')); });
  EXPECT_LE(answer.dump().size(), kAnswerBytes);
  EXPECT_GT(at(answer, "rows").size(), 10U);
  EXPECT_EQ(at(answer, "truncated"), Json(true));
  EXPECT_THAT(*at(answer, "more").text(), HasSubstr(fmt::format("offset {}", 10 + at(answer, "rows").size())));
  Json one = Json::object();
  add_page(one, "rows", 1, {}, [](size_t) { return Json(std::string(100'000, 'x')); });
  EXPECT_EQ(at(one, "rows").size(), 1U);
  Json beyond = Json::object();
  add_page(beyond, "rows", 3, {.limit = 5, .offset = 9}, [](size_t) { return Json(); });
  EXPECT_EQ(at(beyond, "rows").size(), 0U);
  EXPECT_EQ(at(beyond, "truncated"), Json(false));
}

}  // namespace
}  // namespace stalltrace::serve::mcp
