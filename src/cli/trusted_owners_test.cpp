// SPDX-License-Identifier: Apache-2.0
#include "cli/trusted_owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stalltrace::cli {
namespace {

TEST(TrustedOwners, NumbersOrAny) {
  const auto some = parse_trusted_owners({"1000", "0"});
  ASSERT_TRUE(some) << some.error().what;
  EXPECT_THAT(some->users, testing::ElementsAre(1000U, 0U));
  EXPECT_FALSE(some->any_user);
  EXPECT_TRUE(some->have(1000));
  EXPECT_FALSE(some->have(1001));
  EXPECT_TRUE(parse_trusted_owners({"any"})->any_user);
  EXPECT_TRUE(parse_trusted_owners({})->users.empty());
}

TEST(TrustedOwners, OthersAreRefused) {
  for (const char* word : {"", "alice", "-1", "4294967295", "1000x", "Any"}) {
    const auto refused = parse_trusted_owners({word});
    ASSERT_FALSE(refused) << word;
    EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace stalltrace::cli
