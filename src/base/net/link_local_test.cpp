// SPDX-License-Identifier: Apache-2.0
#include "base/net/link_local.h"

#include <gtest/gtest.h>

namespace stalltrace {
namespace {

TEST(LinkLocal, IsTenBitsOfIpv6) {
  for (const char* number : {"fe80::1", "FE80::1", "fe80::1%eth0", "fe9f::1", "febf::1"}) {
    EXPECT_TRUE(is_link_local(number)) << number;
  }
  for (const char* other : {"", "fe80", "fe7f::1", "fec0::1", "fd00::1", "169.254.0.1", "::1"}) {
    EXPECT_FALSE(is_link_local(other)) << other;
  }
}

}  // namespace
}  // namespace stalltrace
