// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/period.h"

#include <gtest/gtest.h>

#include <string_view>

namespace stalltrace {
namespace {

size_t period(std::string_view text) { return period_of(std::span<const char>(text.data(), text.size())); }

TEST(Period, IsTheSmallestAfterWhichAllRepeats) {
  EXPECT_EQ(period("aaaa"), 1U);
  EXPECT_EQ(period("abcabcab"), 3U);
  EXPECT_EQ(period("aabaab"), 3U);
}

TEST(Period, OfWhatDoesNotRepeatIsItsLength) {
  EXPECT_EQ(period("abcd"), 4U);
  EXPECT_EQ(period("aaab"), 4U);
  EXPECT_EQ(period(""), 0U);
}

}  // namespace
}  // namespace stalltrace
