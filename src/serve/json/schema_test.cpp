// SPDX-License-Identifier: Apache-2.0
#include "serve/json/schema.h"

#include <gtest/gtest.h>

#include "tests/support/golden_text.h"

namespace stalltrace::serve::schema {
namespace {

std::string problem(std::string_view value, const Json& schema, Strictness strictness = Strictness::kAsWritten) {
  return problem_with(*parse_json(value), schema, strictness);
}

TEST(Schema, TypesAreCompared) {
  EXPECT_EQ(problem("1", integer()), "");
  golden::expect_text(problem("1.5", integer()));
  golden::expect_text(problem("\"1\"", integer()));
  EXPECT_EQ(problem("1", number()), "");
  EXPECT_EQ(problem("1.5", number()), "");
  golden::expect_text(problem("true", number()));
  EXPECT_EQ(problem("true", boolean()), "");
  golden::expect_text(problem("[]", object({})));
  golden::expect_text(problem("{}", list_of(text())));
  golden::expect_text(problem("null", text()));
  EXPECT_EQ(problem("null", anything()), "");
}

TEST(Schema, LimitsAndChoicesAreCompared) {
  golden::expect_text(problem("0", integer({}, 1, 5)));
  golden::expect_text(problem("6", integer({}, 1, 5)));
  EXPECT_EQ(problem("5", integer({}, 1, 5)), "");
  EXPECT_EQ(problem("\"abc\"", text({}, 2)), "longer than 2 characters");
  EXPECT_EQ(problem(R"("\u20ac\ud83d\ude00")", text({}, 2)), "");
  EXPECT_EQ(problem(R"("\u20ac\ud83d\ude00x")", text({}, 2)), "longer than 2 characters");
  golden::expect_text(problem("\"c\"", one_of({"a", "b"})));
  EXPECT_EQ(problem("\"b\"", one_of({"a", "b"})), "");
}

TEST(Schema, MembersAreComparedWithTheirPath) {
  const Json inner = object({required("n", integer({}, 0))});
  const Json outer = object({required("list", list_of(inner)), optional("word", text())}, {}, true);
  EXPECT_EQ(problem(R"({"list":[{"n":1}]})", outer), "");
  golden::expect_text(problem(R"({})", outer));
  golden::expect_text(problem(R"({"list":[{"n":1},{"n":-1}]})", outer));
  golden::expect_text(problem(R"({"list":[{}]})", outer));
  golden::expect_text(problem(R"({"list":[],"word":3})", outer));
  golden::expect_text(problem(R"({"list":[],"other":3})", outer));
}

TEST(Schema, OpenObjectsTakeOtherMembersUnlessNoneAreWanted) {
  const Json open = object({optional("a", integer())});
  EXPECT_EQ(problem(R"({"b":1})", open), "");
  golden::expect_text(problem(R"({"b":1})", open, Strictness::kNoOther));
}

}  // namespace
}  // namespace stalltrace::serve::schema
