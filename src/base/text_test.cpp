// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

#include <random>

namespace stalltrace {
namespace {

TEST(Printable, KeepsWhatIsText) {
  EXPECT_EQ(printable("rank 3 on node-1"), "rank 3 on node-1");
  EXPECT_EQ(printable("K\u00fcche \u2192 \U0001f600"), "K\u00fcche \u2192 \U0001f600");
  EXPECT_EQ(printable("\u00a0\u07ff\u0800\uffff\U0010ffff"), "\u00a0\u07ff\u0800\uffff\U0010ffff");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, ControlCharactersDoNotReachTheTerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb\r\n\x7f"), "a?[2Jb???");
  EXPECT_EQ(printable("a\xc2\x9b"
                      "2Jb"),
            "a?2Jb")
      << "U+009B, which begins an escape sequence as ESC [ does";
  EXPECT_EQ(printable("\xc2\x80\xc2\x9f\xc2\xa0"), "??\xc2\xa0");
}

TEST(Printable, NothingTurnsTheTextRoundOrHides) {
  EXPECT_EQ(printable("a\u202eb\u2066c\u200bd\u061ce\ufefff\u2028g"), "a?b?c?d?e?f?g");
  EXPECT_EQ(printable("\U000e0041x\u200d"), "?x?");
  EXPECT_EQ(printable("\u05e9\u05dc\u05d5\u05dd"), "\u05e9\u05dc\u05d5\u05dd") << "letters keep their direction";
}

TEST(EscapeInJson, SaysTheSameWithoutThem) {
  EXPECT_EQ(escape_in_json("{\n  \"a\": \"K\u00fcche \u202e\u009b\x7f\"\n}\n"),
            "{\n  \"a\": \"K\u00fcche \\u202e\\u009b\\u007f\"\n}\n");
  EXPECT_EQ(escape_in_json("\"\U000e0041\""), "\"\\udb40\\udc41\"");
}

TEST(Printable, BytesThatAreNoUtf8BecomeQuestionMarks) {
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "?2J")
      << "C1 as a single byte";
  EXPECT_EQ(printable("a\xc3"), "a?") << "cut short";
  EXPECT_EQ(printable("\xe2\x86z"), "??z");
  EXPECT_EQ(printable("\xc0\xaf"), "??") << "a longer form than needed";
  EXPECT_EQ(printable("\xe0\x80\x9b"), "???") << "so, too, U+001B";
  EXPECT_EQ(printable("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80\xff"), "?????") << "beyond Unicode";
}

/// As printable(), but of plain characters one by one: what is between them it sees alone.
std::string printable_by_parts(std::string_view text) {
  std::string line;
  std::string others;
  for (const char c : text) {
    if (c >= ' ' && c <= '~') {
      line += printable(others) + c;
      others.clear();
    } else {
      others += c;
    }
  }
  return line + printable(others);
}

TEST(Printable, RunsOfPlainCharactersChangeNothing) {
  std::mt19937 chance(11);
  const std::vector<std::string_view> kParts{"abc ~", "\u202e", "\u00fc", "\xe2\x86", "\xc3", "\x9b",       "\x7f",
                                             "\n",    "\xf4",   "x",      "\u0085",   " ",    "\U0001f600", "\xff"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t i = chance() % 12; i > 0; --i) {
      if (chance() % 2 == 0) {
        text += kParts[chance() % kParts.size()];
      } else {
        text += static_cast<char>(chance() % 256);
      }
    }
    const std::string line = printable(text);
    ASSERT_EQ(line, printable_by_parts(text));
    ASSERT_EQ(printable(line), line);
    ASSERT_EQ(escape_in_json(line), line) << "nothing is left to escape";
  }
}

TEST(Capitalised, ChangesOneLetter) {
  EXPECT_EQ(capitalised("rank 2"), "Rank 2");
  EXPECT_EQ(capitalised("NCCL"), "NCCL");
  EXPECT_EQ(capitalised("4 ranks"), "4 ranks");
  EXPECT_EQ(capitalised(""), "");
}

TEST(Duration, HasThreeDigitsAndNeverAnExponent) {
  EXPECT_EQ(format_duration(5'123'456'789), "5.12 s");
  EXPECT_EQ(format_duration(999'400'000), "999 ms");
  EXPECT_EQ(format_duration(999'700'000), "1 s");
  EXPECT_EQ(format_duration(999'700), "1 ms");
  EXPECT_EQ(format_duration(-999'700'000), "-1 s");
  EXPECT_EQ(format_duration(26 * 3600 * int64_t{1'000'000'000}), "1560 min");
}

TEST(Text, BaseNames) {
  EXPECT_EQ(base_name("/a/b.log"), "b.log");
  EXPECT_EQ(base_name("b.log"), "b.log");
  EXPECT_EQ(base_name("/a/"), "");
  EXPECT_EQ(base_name(""), "");
}

}  // namespace
}  // namespace stalltrace
