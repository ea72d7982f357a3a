// SPDX-License-Identifier: Apache-2.0
// The profiler file's layout, as docs/profiler_file.md specifies it.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "plugin/wire/blackbox.h"

namespace {

template <typename... Types>
constexpr bool kNoHiddenPadding = (std::has_unique_object_representations_v<Types> && ...);

static_assert(
    kNoHiddenPadding<st_box_header, st_box_communicator, st_box_coll, st_box_proxy_op, st_box_proxy_step,
                     st_box_kernel_channel, st_box_api, st_box_ce, st_box_net, st_box_proxy_ctrl, st_box_event>);

TEST(BlackBoxLayout, Header) {
  EXPECT_EQ(offsetof(st_box_header, version), 8);
  EXPECT_EQ(offsetof(st_box_header, file_bytes), 32);
  EXPECT_EQ(offsetof(st_box_header, ring_capacity), 80);
  EXPECT_EQ(offsetof(st_box_header, pid), 88);
  EXPECT_EQ(offsetof(st_box_header, state), 176);
  EXPECT_EQ(offsetof(st_box_header, lost), 208);
  EXPECT_EQ(offsetof(st_box_header, anchors), 336);
  EXPECT_EQ(offsetof(st_box_header, boot_id), 1360);
  EXPECT_EQ(offsetof(st_box_header, heartbeat_ns), 1864);
  EXPECT_EQ(offsetof(st_box_header, pauses), 1888);
  EXPECT_EQ(sizeof(st_box_pause), 24);
  EXPECT_EQ(offsetof(st_box_header, anchored_ns), 3960);
  EXPECT_EQ(offsetof(st_box_header, ring_head), 3968);
  EXPECT_EQ(offsetof(st_box_header, slot_cursor), 4032);
}

TEST(BlackBoxLayout, Event) {
  EXPECT_EQ(offsetof(st_box_event, commit), 0);
  EXPECT_EQ(offsetof(st_box_event, id), 8);
  EXPECT_EQ(offsetof(st_box_event, start_ns), 24);
  EXPECT_EQ(offsetof(st_box_event, end_ns), 32);
  EXPECT_EQ(offsetof(st_box_event, type), 48);
  EXPECT_EQ(offsetof(st_box_event, u), 56);
  EXPECT_EQ(offsetof(st_box_coll, ops_started), 64);
  EXPECT_EQ(offsetof(st_box_proxy_op, wait_ns), 48);
  EXPECT_EQ(offsetof(st_box_proxy_step, wait_ns), 40);
}

}  // namespace
