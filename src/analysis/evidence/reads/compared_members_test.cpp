// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/reads/compared_members.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace stalltrace::analysis {
namespace {

std::vector<MemberIndex> ranks(size_t count) {
  std::vector<MemberIndex> members(count);
  std::iota(members.begin(), members.end(), MemberIndex{0});
  return members;
}

TEST(ComparedMembers, AreAllOfAFew) { EXPECT_EQ(compared_members(ranks(kMostCompared)), ranks(kMostCompared)); }

TEST(ComparedMembers, AreTheSameOfManyInAnyOrder) {
  std::vector<MemberIndex> members = ranks(8192);
  std::vector<MemberIndex> once = compared_members(members);
  std::ranges::reverse(members);
  std::vector<MemberIndex> again = compared_members(members);
  EXPECT_EQ(once.size(), kMostCompared);
  std::ranges::sort(once);
  std::ranges::sort(again);
  EXPECT_EQ(once, again);
  const auto upper = std::ranges::count_if(once, [](MemberIndex member) { return member >= 4096; });
  EXPECT_TRUE(upper > 16 && upper < 48) << upper << " of the upper half";
}

}  // namespace
}  // namespace stalltrace::analysis
