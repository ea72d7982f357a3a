// SPDX-License-Identifier: Apache-2.0
#include "serve/json/schema.h"

#include <gtest/gtest.h>

namespace stalltrace::serve::schema {
namespace {

std::string problem(std::string_view value, const Json& schema, Strictness strictness = Strictness::kAsWritten) {
  return problem_with(*parse_json(value), schema, strictness);
}

TEST(Schema, TypesAreCompared) {
  EXPECT_EQ(problem("1", integer()), "");
  EXPECT_EQ(problem("1.5", integer()), "1.5 is no integer");
  EXPECT_EQ(problem("\"1\"", integer()), "\"1\" is no integer");
  EXPECT_EQ(problem("1", number()), "");
  EXPECT_EQ(problem("1.5", number()), "");
  EXPECT_EQ(problem("true", number()), "true is no number");
  EXPECT_EQ(problem("true", boolean()), "");
  EXPECT_EQ(problem("[]", object({})), "[] is no object");
  EXPECT_EQ(problem("{}", list_of(text())), "{} is no array");
  EXPECT_EQ(problem("null", text()), "null is no string");
  EXPECT_EQ(problem("null", anything()), "");
}

TEST(Schema, LimitsAndChoicesAreCompared) {
  EXPECT_EQ(problem("0", integer({}, 1, 5)), "0 is less than 1");
  EXPECT_EQ(problem("6", integer({}, 1, 5)), "6 is more than 5");
  EXPECT_EQ(problem("5", integer({}, 1, 5)), "");
  EXPECT_EQ(problem("\"abc\"", text({}, 2)), "longer than 2 bytes");
  EXPECT_EQ(problem("\"c\"", one_of({"a", "b"})), "\"c\" is none of a, b");
  EXPECT_EQ(problem("\"b\"", one_of({"a", "b"})), "");
}

TEST(Schema, MembersAreComparedWithTheirPlace) {
  const Json inner = object({required("n", integer({}, 0))});
  const Json outer = object({required("list", list_of(inner)), optional("word", text())}, {}, true);
  EXPECT_EQ(problem(R"({"list":[{"n":1}]})", outer), "");
  EXPECT_EQ(problem(R"({})", outer), "'list' is missing");
  EXPECT_EQ(problem(R"({"list":[{"n":1},{"n":-1}]})", outer), "list[1].n: -1 is less than 0");
  EXPECT_EQ(problem(R"({"list":[{}]})", outer), "list[0]: 'n' is missing");
  EXPECT_EQ(problem(R"({"list":[],"word":3})", outer), "word: 3 is no string");
  EXPECT_EQ(problem(R"({"list":[],"other":3})", outer), "there is no 'other'");
}

TEST(Schema, OpenObjectsTakeOtherMembersUnlessNoneAreWanted) {
  const Json open = object({optional("a", integer())});
  EXPECT_EQ(problem(R"({"b":1})", open), "");
  EXPECT_EQ(problem(R"({"b":1})", open, Strictness::kNoOther), "there is no 'b'");
}

}  // namespace
}  // namespace stalltrace::serve::schema
