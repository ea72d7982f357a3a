// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/command_line.h"

#include <gtest/gtest.h>

#include "tests/support/golden_text.h"

namespace stalltrace::cli {
namespace {

/// A verb with members and rows of all kinds.
struct Sample {
  bool json = false;
  std::string out = "x.db";
  std::vector<std::string> faults;
  std::vector<int32_t> pids;
  std::optional<int64_t> duration_ns;
  int64_t size_bytes = 1 << 30;
  int64_t ranks = 4;
  std::string format = "table";
  std::string file;
  std::vector<std::string> command;

  std::vector<Flag> flags() {
    return {argument("FILE", "", &file),
            switch_flag("--json", "", &json),
            text_flag("--out", "FILE", "", &out),
            texts_flag("--fault", "SPEC", "", &faults),
            pids_flag("--pid", "", &pids),
            duration_flag("--duration", "", &duration_ns),
            size_limit_flag("--max-size", "", &size_bytes),
            integer_flag("--ranks", "N", "", 2, 16, &ranks),
            choice_flag("--format", "", {"table", "json"}, &format),
            command_argument("", &command)};
  }
  Result<Parsed> parse(std::vector<std::string> words) { return parse_args("sample", words, flags()); }
};

TEST(CommandLine, WhatChoosesAFileIsRefusedInSecureMode) {
  std::string library;
  bool json = false;
  const std::vector<Flag> flags{privileged(text_flag("--library", "FILE", "", &library)),
                                switch_flag("--json", "", &json)};
  const std::vector<std::string> words{"--json", "--library", "/home/eve/lib.so"};
  const auto refused = parse_args("trace", words, flags, true);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  golden::expect_text(refused.error().what);
  EXPECT_EQ(library, "");
  EXPECT_TRUE(parse_args("trace", words, flags, false).has_value());
  EXPECT_EQ(library, "/home/eve/lib.so");
}

TEST(CommandLine, FillsMembers) {
  Sample sample;
  ASSERT_TRUE(sample.parse({"a.db",  "--json",   "--out", "b.db", "--fault",    "one",   "--fault",       "two",
                            "--pid", "7,8",      "--pid", "9",    "--duration", "500ms", "--max-size=2k", "--ranks",
                            "8",     "--format", "json",  "--",   "train",      "--json"}));
  EXPECT_EQ(sample.file, "a.db");
  EXPECT_TRUE(sample.json);
  EXPECT_EQ(sample.out, "b.db");
  EXPECT_EQ(sample.faults, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(sample.pids, (std::vector<int32_t>{7, 8, 9}));
  EXPECT_EQ(sample.duration_ns, 500'000'000);
  EXPECT_EQ(sample.size_bytes, 2048);
  EXPECT_EQ(sample.ranks, 8);
  EXPECT_EQ(sample.format, "json");
  EXPECT_EQ(sample.command, (std::vector<std::string>{"train", "--json"}));
}

TEST(CommandLine, KeepsDefaults) {
  Sample sample;
  ASSERT_TRUE(sample.parse({"a.db"}));
  EXPECT_FALSE(sample.json);
  EXPECT_EQ(sample.out, "x.db");
  EXPECT_FALSE(sample.duration_ns);
  EXPECT_EQ(sample.size_bytes, 1 << 30);
  EXPECT_EQ(sample.ranks, 4);
}

TEST(CommandLine, HelpWinsOverWhatIsMissing) {
  Sample sample;
  EXPECT_EQ(*sample.parse({"--help"}), Parsed::kHelpWanted);
  EXPECT_EQ(*sample.parse({"--json", "-h"}), Parsed::kHelpWanted);
}

TEST(CommandLine, HelpAfterTheDoubleDashIsTheCommands) {
  Sample sample;
  EXPECT_EQ(*sample.parse({"a.db", "--", "train", "--help"}), Parsed::kRun);
}

TEST(CommandLine, RefusesWithTheWord) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{}, "FILE is missing"},
      {{"a.db", "b.db"}, "'b.db' is not a flag"},
      {{"a.db", "--duration", "0s"}, "--duration: '0s'"},
      {{"a.db", "--out", ""}, "--out: the value is empty"},
      {{"a.db", "--fault="}, "--fault: the value is empty"},
      {{"a.db", "--frob"}, "--frob"},
      {{"a.db", "--out"}, "--out needs a value"},
      {{"a.db", "--out", "1", "--out", "2"}, "--out is given twice"},
      {{"a.db", "--duration", "10"}, "--duration: '10'"},
      {{"a.db", "--ranks", "1"}, "--ranks: 1"},
      {{"a.db", "--ranks", "x"}, "--ranks: 'x'"},
      {{"a.db", "--pid", "0"}, "--pid: '0'"},
      {{"a.db", "--format", "xml"}, "--format: 'xml'"},
      {{"a.db", "--json=maybe"}, "--json"},
  };
  for (const auto& [words, part] : cases) {
    Sample sample;
    const auto parsed = sample.parse(words);
    ASSERT_FALSE(parsed.has_value()) << part;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kUsage) << part;
    EXPECT_NE(parsed.error().what.find(part), std::string::npos) << parsed.error().what;
  }
}

TEST(CommandLine, ARequiredFlagIsNamedWhenMissing) {
  std::string out;
  const auto parsed = parse_args("sample", {}, std::vector{required(text_flag("--out", "FILE", "", &out))});
  ASSERT_FALSE(parsed.has_value());
  golden::expect_text(parsed.error().what);
}

/// The remedy is the command line to type instead.
TEST(CommandLine, TheRemedyIsTheRightCommandLine) {
  std::string out;
  std::vector<std::string> command;
  const auto remedy_of = [&](const std::vector<std::string>& words) {
    const std::vector flags{text_flag("--out", "DIR", "", &out), required(command_argument("", &command))};
    const auto parsed = parse_args("run", words, flags);
    return parsed.has_value() ? "" : parsed.error().remedy;
  };
  golden::expect_text(remedy_of({"python", "train.py", "--lr"}));
  golden::expect_text(remedy_of({"--out", "a b", "python"}));
  golden::expect_text(remedy_of({"--out", "r1"}));
  golden::expect_text(remedy_of({"--out", "r1", "--"}));
  EXPECT_EQ(remedy_of({"--out"}), "write --out DIR");
  EXPECT_EQ(remedy_of({"--", "python"}), "");
}

TEST(CommandLine, OneWordTooManySaysWhatTheLastArgumentWants) {
  std::string file;
  std::string sql;
  Flag last = argument("SQL", "", &sql);
  last.when_followed = "put it in quotes";
  const auto parsed = parse_args("query", std::vector<std::string>{"a.db", "SELECT", "1"},
                                 std::vector{argument("FILE", "", &file), last});
  ASSERT_FALSE(parsed.has_value());
  golden::expect_text(parsed.error().what);
  golden::expect_text(parsed.error().remedy);
}

TEST(CommandLine, WithoutACommandTheDashesOnlyEndTheFlags) {
  std::vector<std::string> files;
  ASSERT_TRUE(parse_args("explain", std::vector<std::string>{"a.db", "--", "--b.db", "-c"},
                         std::vector{arguments("FILE", "", &files)}));
  EXPECT_EQ(files, (std::vector<std::string>{"a.db", "--b.db", "-c"}));
}

TEST(CommandLine, ASizeMayBeNone) {
  for (const char* text : {"none", "0"}) {
    Sample sample;
    ASSERT_TRUE(sample.parse({"a.db", "--max-size", text}));
    EXPECT_EQ(sample.size_bytes, 0) << text;
  }
}

TEST(CommandLine, TakesWordsAsTheyAre) {
  Sample sample;
  ASSERT_TRUE(sample.parse({"[a,b].db", "--out", "with space, and comma"}));
  EXPECT_EQ(sample.file, "[a,b].db");
  EXPECT_EQ(sample.out, "with space, and comma");
}

}  // namespace
}  // namespace stalltrace::cli
