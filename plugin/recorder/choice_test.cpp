// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plugin/abi/events.h"
#include "plugin/recorder/event_choice.h"
#include "plugin/recorder/names.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::plugin {
namespace {

TEST(EventMask, TheDefaultIsCheap) {
  const EventMask choice = parse_events(nullptr);
  EXPECT_TRUE(choice.understood);
  EXPECT_EQ(choice.nccl_mask & (nccl::kEventProxyCtrl | nccl::kEventNetPlugin | nccl::kEventGroup), 0U);
  EXPECT_NE(choice.nccl_mask & nccl::kEventProxyStep, 0U);
  EXPECT_EQ(choice.kept_mask & (1U << ST_BOX_PROXY_STEP | 1U << ST_BOX_KERNEL_CHANNEL), 0U);
  EXPECT_EQ(parse_events("").nccl_mask, choice.nccl_mask);
  EXPECT_EQ(parse_events("default").kept_mask, choice.kept_mask);
}

TEST(EventMask, Names) {
  const EventMask choice = parse_events("Coll,ProxyStep");
  EXPECT_EQ(choice.nccl_mask, nccl::kEventColl | nccl::kEventProxyStep);
  EXPECT_EQ(choice.kept_mask, 1U << ST_BOX_COLL | 1U << ST_BOX_P2P | 1U << ST_BOX_PROXY_STEP);
  EXPECT_EQ(parse_events("all").nccl_mask, 0x7fffU);
  EXPECT_EQ(parse_events("none").nccl_mask, 0U);
  EXPECT_EQ(parse_events("none").kept_mask, 0U);
  EXPECT_NE(parse_events("default,net").nccl_mask & nccl::kEventNetPlugin, 0U);
}

TEST(EventMask, UnknownNamesAreReported) {
  EXPECT_FALSE(parse_events("coll,colls").understood);
  EXPECT_EQ(parse_events("coll,colls").nccl_mask, nccl::kEventColl);
  EXPECT_TRUE(parse_events("coll,,p2p,").understood);
}

TEST(Names, OfNccl) {
  EXPECT_EQ(operation_of("AllReduce"), ST_BOX_OP_ALL_REDUCE);
  EXPECT_EQ(operation_of("Reduce"), ST_BOX_OP_REDUCE);
  EXPECT_EQ(operation_of("AlltoAll"), ST_BOX_OP_ALL_TO_ALL);
  EXPECT_EQ(operation_of("Send"), ST_BOX_OP_SEND);
  EXPECT_EQ(operation_of("SendRecv"), ST_BOX_OP_SEND_RECV);
  EXPECT_EQ(datatype_of("ncclInt8"), 0);
  EXPECT_EQ(datatype_of("ncclBfloat16"), 9);
  EXPECT_EQ(datatype_of("ncclFloat8e5m2"), 11);
  EXPECT_EQ(algorithm_of("NVLS_TREE"), ST_BOX_ALGO_NVLS_TREE);
  EXPECT_EQ(protocol_of("LL128"), ST_BOX_PROTO_LL128);
}

TEST(Names, UnknownOnes) {
  const char* missing = nullptr;
  EXPECT_EQ(operation_of(missing), ST_BOX_OP_UNKNOWN);
  EXPECT_EQ(operation_of(""), ST_BOX_OP_UNKNOWN);
  EXPECT_EQ(datatype_of("Unknown"), ST_BOX_DATATYPE_UNKNOWN);
  EXPECT_EQ(algorithm_of("Unknown"), ST_BOX_ALGO_UNKNOWN);
  EXPECT_EQ(protocol_of("Unknown"), ST_BOX_PROTO_UNKNOWN);
  EXPECT_EQ(operation_of(uint8_t{200}), ST_BOX_OP_UNKNOWN);
  EXPECT_EQ(datatype_of(uint8_t{10}), ST_BOX_DATATYPE_UNKNOWN);
}

TEST(Names, NumbersOfTheFirstInterface) {
  EXPECT_EQ(operation_of(uint8_t{4}), ST_BOX_OP_ALL_REDUCE);
  EXPECT_EQ(operation_of(uint8_t{6}), ST_BOX_OP_SEND);
  EXPECT_EQ(algorithm_of(uint8_t{1}), ST_BOX_ALGO_RING);
  EXPECT_EQ(protocol_of(uint8_t{2}), ST_BOX_PROTO_SIMPLE);
  EXPECT_EQ(datatype_of(uint8_t{7}), 7);
}

}  // namespace
}  // namespace stalltrace::plugin
