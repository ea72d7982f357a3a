// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/flag.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/golden_text.h"

namespace stalltrace::cli {
namespace {

/// The error's text and remedy; "" if the row takes the value.
std::string refusal_of(const Flag& flag, std::string_view typed) {
  const Status status = flag.assign(typed);
  if (status) {
    return "";
  }
  EXPECT_EQ(status.error().kind, ErrorKind::kUsage) << typed;
  return status.error().what + (status.error().remedy.empty() ? "" : "; " + status.error().remedy);
}

TEST(FlagRows, TheDefaultIsTheTargetsValueAtTheirCreation) {
  std::string format = "table";
  const Flag choice = choice_flag("--format", "how rows are printed", {"table", "json"}, &format);
  format = "json";
  EXPECT_EQ(choice.default_text, "table");
  EXPECT_EQ(choice.value_name, "table|json");
  int64_t ranks = 4;
  EXPECT_EQ(integer_flag("--ranks", "N", "", 2, 16, &ranks).default_text, "4");
  int64_t duration_ns = 500'000'000;
  EXPECT_EQ(duration_flag("--for", "", &duration_ns).default_text, "500 ms");
  std::optional<int64_t> may_be_none_ns = 1;
  EXPECT_EQ(duration_flag("--for", "", &may_be_none_ns).default_text, "");
  std::string out;
  EXPECT_EQ(text_flag("--out", "DIR", "", &out).default_text, "");
  std::vector<std::string> texts{"a"};
  EXPECT_EQ(texts_flag("--fault", "SPEC", "", &texts).default_text, "") << "those that are given are added";
}

TEST(FlagRows, AssignOneValueAfterAnother) {
  std::vector<int32_t> pids;
  const Flag pid = pids_flag("--pid", "", &pids);
  EXPECT_EQ(refusal_of(pid, "7,8"), "");
  EXPECT_EQ(refusal_of(pid, "9"), "");
  EXPECT_EQ(pids, (std::vector<int32_t>{7, 8, 9}));
  std::vector<int32_t> ranks;
  EXPECT_EQ(refusal_of(ranks_flag("--rank", "", &ranks), "0"), "");
  EXPECT_EQ(ranks, (std::vector<int32_t>{0}));
  std::vector<std::string> command;
  const Flag words = command_argument("", &command);
  EXPECT_EQ(refusal_of(words, "train"), "");
  EXPECT_EQ(refusal_of(words, ""), "") << "a command may have an empty argument";
  EXPECT_EQ(command, (std::vector<std::string>{"train", ""}));
  bool json = false;
  EXPECT_EQ(refusal_of(switch_flag("--json", "", &json), ""), "");
  EXPECT_TRUE(json);
}

TEST(FlagRows, WhatIsRefusedLeavesTheTarget) {
  std::string format = "table";
  golden::expect_text(refusal_of(choice_flag("--format", "", {"table", "json"}, &format), "xml"));
  EXPECT_EQ(format, "table");
  int64_t ranks = 4;
  golden::expect_text(refusal_of(integer_flag("--ranks", "N", "", 2, 16, &ranks), "17"));
  EXPECT_EQ(ranks, 4);
  int64_t duration_ns = 5;
  golden::expect_text(refusal_of(duration_flag("--for", "", &duration_ns), "0s"));
  EXPECT_EQ(duration_ns, 5);
  std::string out = "x.db";
  golden::expect_text(refusal_of(text_flag("--out", "FILE", "", &out), ""));
  EXPECT_EQ(out, "x.db");
  std::vector<int32_t> pids;
  golden::expect_text(refusal_of(pids_flag("--pid", "", &pids), "0"));
  EXPECT_NE(refusal_of(pids_flag("--pid", "", &pids), "2147483648"), "");
  std::vector<int32_t> numbers;
  golden::expect_text(refusal_of(ranks_flag("--rank", "", &numbers), "-1"));
}

TEST(FlagRows, WhatARowCanBeMade) {
  std::string text;
  std::vector<std::string> texts;
  EXPECT_TRUE(required(text_flag("--out", "FILE", "", &text)).required);
  EXPECT_TRUE(hidden(text_flag("--out", "FILE", "", &text)).hidden);
  EXPECT_TRUE(privileged(text_flag("--out", "FILE", "", &text)).privileged);
  EXPECT_TRUE(optional(argument("FILE", "", &text)).optional);
  EXPECT_TRUE(argument("FILE", "", &text).is_argument());
  EXPECT_TRUE(arguments("FILE", "", &texts).is_argument());
  EXPECT_TRUE(command_argument("", &texts).is_argument());
  EXPECT_FALSE(texts_flag("--fault", "SPEC", "", &texts).is_argument());
}

}  // namespace
}  // namespace stalltrace::cli
