// SPDX-License-Identifier: Apache-2.0
#include "base/similar_name.h"

#include <gtest/gtest.h>

#include <array>

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 5> kNames{"collective", "connection", "--json", "run", "explain"};

TEST(SimilarName, TakesTheNearest) {
  EXPECT_EQ(similar_name("collectives", kNames), "collective");
  EXPECT_EQ(similar_name("explian", kNames), "explain");
  EXPECT_EQ(similar_name("--jsn", kNames), "--json");
  EXPECT_EQ(similar_name("EXPLAIN", kNames), "explain");
  EXPECT_EQ(similar_name("rn", kNames), "run");
  EXPECT_EQ(similar_name("--josn", kNames), "--json");
}

TEST(SimilarName, TakesNoneThatIsFar) {
  EXPECT_EQ(similar_name("frobnicate", kNames), std::nullopt);
  EXPECT_EQ(similar_name("", kNames), std::nullopt);
  EXPECT_EQ(similar_name("up", kNames), std::nullopt);  // two of three letters differ
  EXPECT_EQ(similar_name("explain", {}), std::nullopt);
}

}  // namespace
}  // namespace stalltrace
