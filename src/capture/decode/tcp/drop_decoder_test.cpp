// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/tcp/drop_decoder.h"

#include <gtest/gtest.h>

namespace stalltrace::capture {
namespace {

TEST(DropDecoder, MakesARowOfACount) {
  const st_drop_key key{.cookie = 7, .netns = 3, .reason = 2, .incoming = 1};
  const st_drops sum{.first_ns = 1'000, .last_ns = 1'400, .bytes = 9'000, .packets = 6, .tgid = 42};
  const PacketDrop row = decode_drops(key, sum, "NETFILTER_DROP", 5, 1'000'000);
  EXPECT_EQ(row.node_id, 5U);
  EXPECT_EQ(row.timestamp_ns, 1'001'000);
  EXPECT_EQ(row.duration_ns, 400);
  EXPECT_EQ(row.pid, 42);
  EXPECT_EQ(row.cookie, 7U);
  EXPECT_EQ(row.netns, 3U);
  EXPECT_TRUE(row.incoming);
  EXPECT_EQ(row.reason, "NETFILTER_DROP");
  EXPECT_EQ(row.packets, 6);
  EXPECT_EQ(row.bytes, 9'000);
}

}  // namespace
}  // namespace stalltrace::capture
