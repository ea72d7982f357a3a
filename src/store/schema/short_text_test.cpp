// SPDX-License-Identifier: Apache-2.0
#include "store/schema/short_text.h"

#include <gtest/gtest.h>

#include <string>

namespace stalltrace::store {
namespace {

TEST(ShortText, IsTheSameOnlyIfEveryByteIs) {
  for (size_t n = 0; n <= 40; ++n) {
    const std::string text(n, 'x');
    EXPECT_TRUE(same_short_text(text, std::string(n, 'x')));
    EXPECT_FALSE(same_short_text(text, std::string(n + 1, 'x')));
    for (size_t i = 0; i < n; ++i) {
      std::string other = text;
      other[i] = 'y';
      EXPECT_FALSE(same_short_text(text, other)) << n << " bytes, position " << i;
    }
  }
}

}  // namespace
}  // namespace stalltrace::store
