// SPDX-License-Identifier: Apache-2.0
#include "base/process/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/support/golden_text.h"

namespace stalltrace {
namespace {

TEST(DescriptorLimit, IsRaisedAsFarAsItCanBeAndNoFurther) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_TRUE(allow_open_files(32, "files", "give fewer"));
  EXPECT_TRUE(allow_open_files(100, "files", "give fewer"));
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, 100U);
  EXPECT_EQ(raise_open_files(50), 100U) << "never lowered";
  EXPECT_EQ(raise_open_files(120), 120U);
  EXPECT_EQ(raise_open_files(before.rlim_max + 1), before.rlim_max);
  const Status refused = allow_open_files(before.rlim_max + 1, "2000 recordings", "give fewer");
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(refused);
  const golden::Masks masks{{std::to_string(before.rlim_max + 1), "FILES"}, {std::to_string(before.rlim_max), "LIMIT"}};
  golden::expect_text(refused.error().what, masks);
  EXPECT_NE(refused.error().remedy.find("ulimit"), std::string::npos);
  golden::expect_text(refused.error().remedy, masks);
}

}  // namespace
}  // namespace stalltrace
