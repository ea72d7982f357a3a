// SPDX-License-Identifier: Apache-2.0
#include "base/net/loopback.h"

#include <gtest/gtest.h>

namespace stalltrace {
namespace {

TEST(Loopback, IsAskedOfNumbersAlone) {
  for (const char* number : {"127.0.0.1", "127.1.2.3", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback(number)) << number;
  }
  for (const char* other :
       {"", "127.foo", "127.0.0.1.example", "localhost", "10.0.0.1", "128.0.0.1", "::2", "::", "fe80::1"}) {
    EXPECT_FALSE(is_loopback(other)) << other;
  }
}

TEST(Loopback, Name) {
  EXPECT_TRUE(is_localhost("localhost"));
  EXPECT_TRUE(is_localhost("LocalHost"));
  EXPECT_TRUE(is_loopback(kLocalhostNumber));
  for (const char* other : {"", "localhos", "localhost.", "localhost.example", "127.0.0.1"}) {
    EXPECT_FALSE(is_localhost(other)) << other;
  }
}

}  // namespace
}  // namespace stalltrace
