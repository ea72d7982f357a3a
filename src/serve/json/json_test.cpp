// SPDX-License-Identifier: Apache-2.0
#include "serve/json/json.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/golden_text.h"

namespace stalltrace::serve {
namespace {

TEST(Json, WritesWhatItRead) {
  for (const char* text :
       {R"({"b":1,"a":[true,false,null,-5,1.5,"x"],"c":{}})", "[]", "\"\"", "9223372036854775807", R"(["a\"b\\c"])"}) {
    const Result<Json> parsed = parse_json(text);
    ASSERT_TRUE(parsed) << parsed.error().what;
    EXPECT_EQ(parsed->dump(), text);
  }
}

TEST(Json, WhatIsNoJsonIsAnError) {
  for (const char* text : {"", "{", "[1,]", "nan", "{\"a\":1}{", "'a'", "\xff", "\"\xc3\"", "{1:2}", "tru"}) {
    EXPECT_FALSE(parse_json(text)) << text;
  }
}

TEST(Json, AnIntegerBeyond64BitsIsAReal) {
  EXPECT_EQ(parse_json("18446744073709551615")->integer(), nullptr);
  EXPECT_DOUBLE_EQ(parse_json("18446744073709551615")->number(), 18446744073709551615.0);
}

TEST(Json, ARealWithoutAFractionIsAnInteger) {
  EXPECT_EQ(*parse_json("5.0"), Json(5));
  EXPECT_EQ(*parse_json("-1e3"), Json(-1000));
  EXPECT_EQ(*parse_json("1e300"), Json(1e300));
  EXPECT_EQ(*parse_json("5.5"), Json(5.5));
}

TEST(Json, OfTwoMembersWithOneNameTheLastCounts) { EXPECT_EQ(parse_json(R"({"a":1,"a":2})")->dump(), R"({"a":2})"); }

TEST(Json, LimitsHold) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(32)));
  const Result<Json> deep = parse_json(nested(100'000));
  ASSERT_FALSE(deep);
  golden::expect_text(deep.error().what);
  EXPECT_TRUE(parse_json("[1,2]", {.values = 3}));
  EXPECT_FALSE(parse_json("[1,2]", {.values = 2}));
  EXPECT_TRUE(parse_json(R"({"a":1,"b":2})", {.members = 2}));
  EXPECT_FALSE(parse_json(R"({"a":1,"b":2,"c":3})", {.members = 2}));
}

TEST(Json, TextThatIsNotUtf8OrMisleadsATerminalIsEscaped) {
  EXPECT_EQ(Json("a\xff").dump(), "\"a\xef\xbf\xbd\"");
  EXPECT_EQ(Json("\x1b[2J\n").dump(), R"("\u001b[2J\n")");
  EXPECT_EQ(Json("\u202e").dump(), R"("\u202e")");
}

TEST(Json, ANumberThatJsonHasNotIsNull) { EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null"); }

}  // namespace
}  // namespace stalltrace::serve
