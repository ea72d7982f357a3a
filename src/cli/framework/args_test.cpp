// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/args.h"

#include <gtest/gtest.h>

#include <array>
#include <tuple>
#include <utility>

namespace stalltrace::cli {
namespace {

using Words = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

const std::array kShapes{FlagShape{"--json", false, {}}, FlagShape{"--out", true, {}}, FlagShape{"--only", true, {}},
                         FlagShape{"--duration", true, "write it like 20s"}};

Result<Args> split(const Words& words) { return split_args(words, kShapes); }

Pairs given(const Args& args) {
  Pairs pairs;
  for (const Args::Given& one : args.given) {
    pairs.emplace_back(kShapes[one.flag].name, one.value);
  }
  return pairs;
}

Words plain(const Args& args) {
  Words words;
  for (const Args::Word& word : args.plain) {
    words.push_back(word.text);
  }
  return words;
}

TEST(Args, FlagsAndPlainWordsMix) {
  const Args args = *split({"a.db", "--out", "x", "b.db", "--json", "c.db", "--out=y=z", "--duration="});
  EXPECT_EQ(given(args), (Pairs{{"--out", "x"}, {"--json", ""}, {"--out", "y=z"}, {"--duration", ""}}));
  EXPECT_EQ(plain(args), (Words{"a.db", "b.db", "c.db"}));
  EXPECT_EQ(args.plain[1].position, 3U);
  EXPECT_FALSE(args.dashes);
  EXPECT_FALSE(args.help);
}

TEST(Args, NothingIsReadAfterTheDashes) {
  const Args args = *split({"--json", "--", "train", "--out", "--help", "--", "-x"});
  EXPECT_TRUE(args.dashes);
  EXPECT_FALSE(args.help);
  EXPECT_EQ(args.after_dashes, (Words{"train", "--out", "--help", "--", "-x"}));
  EXPECT_EQ(given(args), (Pairs{{"--json", ""}}));
  EXPECT_TRUE(split({"--"})->dashes);
}

TEST(Args, AValueMayBeginWithOneDashOnly) {
  EXPECT_EQ(given(*split({"--duration", "-5s"})), (Pairs{{"--duration", "-5s"}}));
  EXPECT_EQ(given(*split({"--out", "-"})), (Pairs{{"--out", "-"}}));
  EXPECT_EQ(given(*split({"--out=--json"})), (Pairs{{"--out", "--json"}}));
  EXPECT_EQ(plain(*split({"-", ""})), (Words{"-", ""}));
}

TEST(Args, HelpHidesEveryError) {
  for (const Words& words : {Words{"--help"}, Words{"-h"}, Words{"--frob", "--help"}, Words{"--duration", "-h"},
                             Words{"--json=1", "--help", "--out"}}) {
    const auto args = split(words);
    ASSERT_TRUE(args.has_value()) << words.front();
    EXPECT_TRUE(args->help) << words.front();
  }
  EXPECT_FALSE(split({"--frob", "--", "--help"}).has_value());
}

TEST(Args, WherePlainWordsAreWrongTheFirstEndsTheReading) {
  const Args args = *split_args(Words{"--json", "train", "--frob", "--help"}, kShapes, false);
  EXPECT_EQ(plain(args), Words{"train"});
  EXPECT_EQ(args.plain[0].position, 1U);
  EXPECT_FALSE(args.help);
}

TEST(Args, RefusesAndSuggests) {
  const std::vector<std::tuple<Words, std::string, std::string>> cases{
      {{"--jsn"}, "'--jsn' is not known", "'--json'"},
      {{"--OUT", "x"}, "'--OUT' is not known", "'--out'"},
      {{"-o", "x"}, "'-o' is not known", "'--out'"},
      {{"-d=5s"}, "'-d' is not known", "--help"},
      {{"-x"}, "'-x' is not known", "--help"},
      {{"-out", "x"}, "'-out' is not known", "'--out'"},
      {{"--frobnicate=1"}, "'--frobnicate' is not known", ""},
      {{"--duration"}, "--duration needs a value", "like 20s"},
      {{"--duration", "--out", "x"}, "--duration needs a value", "like 20s"},
      {{"--out", "--", "x"}, "--out needs a value", ""},
      {{"--json=yes"}, "--json takes no value", ""},
  };
  for (const auto& [words, what, remedy] : cases) {
    const auto args = split(words);
    ASSERT_FALSE(args.has_value()) << what;
    EXPECT_EQ(args.error().kind, ErrorKind::kUsage);
    EXPECT_NE(args.error().what.find(what), std::string::npos) << args.error().what;
    EXPECT_EQ(args.error().remedy.empty(), remedy.empty()) << args.error().remedy;
    EXPECT_NE(args.error().remedy.find(remedy), std::string::npos) << args.error().remedy;
  }
}

TEST(Args, OneLetterIsNoHintAtAFlag) {
  for (const std::string word : {"-x", "-j", "-d"}) {
    const auto args = split({word});
    ASSERT_FALSE(args.has_value());
    for (const FlagShape& shape : kShapes) {
      EXPECT_FALSE(args.error().remedy.contains(shape.name)) << args.error().remedy;
    }
  }
}

}  // namespace
}  // namespace stalltrace::cli
