// SPDX-License-Identifier: Apache-2.0
// Sizes and offsets of NCCL's profiler interface on LP64, as a compiler sees NCCL's own headers
// (2.23.4, 2.24.3, 2.26.2, 2.27.3, 2.28.3, 2.29.2 and 2.30.7). A number that changes here no longer is NCCL's.
#include <gtest/gtest.h>

#include <cstddef>

#include "plugin/abi/profiler.h"

namespace stalltrace::nccl {
namespace {

// The interface consists of offsets of members of unions and nested structs; GCC accepts them as an extension.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
#define EXPECT_OFFSET(type, member, offset) EXPECT_EQ(offsetof(type, member), offset)

TEST(NcclAbi, DescriptorV1) {
  EXPECT_EQ(sizeof(v1::Descriptor), 120);
  EXPECT_OFFSET(v1::Descriptor, type, 0);
  EXPECT_OFFSET(v1::Descriptor, parent, 8);
  EXPECT_OFFSET(v1::Descriptor, rank, 16);
  EXPECT_OFFSET(v1::Descriptor, coll.name, 24);
  EXPECT_OFFSET(v1::Descriptor, coll.comm_hash, 32);
  EXPECT_OFFSET(v1::Descriptor, coll.sequence, 40);
  EXPECT_OFFSET(v1::Descriptor, coll.function, 48);
  EXPECT_OFFSET(v1::Descriptor, coll.send_buffer, 56);
  EXPECT_OFFSET(v1::Descriptor, coll.receive_buffer, 64);
  EXPECT_OFFSET(v1::Descriptor, coll.count, 72);
  EXPECT_OFFSET(v1::Descriptor, coll.root, 80);
  EXPECT_OFFSET(v1::Descriptor, coll.datatype, 84);
  EXPECT_OFFSET(v1::Descriptor, coll.reduce_op, 88);
  EXPECT_OFFSET(v1::Descriptor, coll.traffic_bytes, 96);
  EXPECT_OFFSET(v1::Descriptor, coll.channels, 104);
  EXPECT_OFFSET(v1::Descriptor, coll.warps, 105);
  EXPECT_OFFSET(v1::Descriptor, coll.algorithm, 106);
  EXPECT_OFFSET(v1::Descriptor, coll.protocol, 107);
  EXPECT_OFFSET(v1::Descriptor, coll.is_collnet, 108);
  EXPECT_OFFSET(v1::Descriptor, coll.is_nvls, 112);
  EXPECT_OFFSET(v1::Descriptor, p2p.name, 24);
  EXPECT_OFFSET(v1::Descriptor, p2p.comm_hash, 32);
  EXPECT_OFFSET(v1::Descriptor, p2p.function, 40);
  EXPECT_OFFSET(v1::Descriptor, p2p.buffer, 48);
  EXPECT_OFFSET(v1::Descriptor, p2p.datatype, 56);
  EXPECT_OFFSET(v1::Descriptor, p2p.count, 64);
  EXPECT_OFFSET(v1::Descriptor, p2p.peer, 72);
  EXPECT_OFFSET(v1::Descriptor, proxy_op.pid, 24);
  EXPECT_OFFSET(v1::Descriptor, proxy_op.channel, 28);
  EXPECT_OFFSET(v1::Descriptor, proxy_op.peer, 32);
  EXPECT_OFFSET(v1::Descriptor, proxy_op.steps, 36);
  EXPECT_OFFSET(v1::Descriptor, proxy_op.chunk_bytes, 40);
  EXPECT_OFFSET(v1::Descriptor, proxy_op.is_send, 44);
  EXPECT_OFFSET(v1::Descriptor, proxy_step.step, 24);
}

TEST(NcclAbi, DescriptorV2) {
  EXPECT_EQ(sizeof(v2::Descriptor), 128);
  EXPECT_OFFSET(v2::Descriptor, type, 0);
  EXPECT_OFFSET(v2::Descriptor, parent, 8);
  EXPECT_OFFSET(v2::Descriptor, rank, 16);
  EXPECT_OFFSET(v2::Descriptor, coll.name, 24);
  EXPECT_OFFSET(v2::Descriptor, coll.comm_hash, 32);
  EXPECT_OFFSET(v2::Descriptor, coll.sequence, 40);
  EXPECT_OFFSET(v2::Descriptor, coll.function, 48);
  EXPECT_OFFSET(v2::Descriptor, coll.send_buffer, 56);
  EXPECT_OFFSET(v2::Descriptor, coll.receive_buffer, 64);
  EXPECT_OFFSET(v2::Descriptor, coll.count, 72);
  EXPECT_OFFSET(v2::Descriptor, coll.root, 80);
  EXPECT_OFFSET(v2::Descriptor, coll.datatype, 88);
  EXPECT_OFFSET(v2::Descriptor, coll.traffic_bytes, 96);
  EXPECT_OFFSET(v2::Descriptor, coll.channels, 104);
  EXPECT_OFFSET(v2::Descriptor, coll.warps, 105);
  EXPECT_OFFSET(v2::Descriptor, coll.algorithm, 112);
  EXPECT_OFFSET(v2::Descriptor, coll.protocol, 120);
  EXPECT_OFFSET(v2::Descriptor, p2p.name, 24);
  EXPECT_OFFSET(v2::Descriptor, p2p.comm_hash, 32);
  EXPECT_OFFSET(v2::Descriptor, p2p.function, 40);
  EXPECT_OFFSET(v2::Descriptor, p2p.buffer, 48);
  EXPECT_OFFSET(v2::Descriptor, p2p.datatype, 56);
  EXPECT_OFFSET(v2::Descriptor, p2p.count, 64);
  EXPECT_OFFSET(v2::Descriptor, p2p.peer, 72);
  EXPECT_OFFSET(v2::Descriptor, proxy_op.pid, 24);
  EXPECT_OFFSET(v2::Descriptor, proxy_op.channel, 28);
  EXPECT_OFFSET(v2::Descriptor, proxy_op.peer, 32);
  EXPECT_OFFSET(v2::Descriptor, proxy_op.steps, 36);
  EXPECT_OFFSET(v2::Descriptor, proxy_op.chunk_bytes, 40);
  EXPECT_OFFSET(v2::Descriptor, proxy_op.is_send, 44);
  EXPECT_OFFSET(v2::Descriptor, proxy_step.step, 24);
}

TEST(NcclAbi, DescriptorV3) {
  EXPECT_EQ(sizeof(v3::Descriptor), 120);
  EXPECT_OFFSET(v3::Descriptor, type, 0);
  EXPECT_OFFSET(v3::Descriptor, parent, 8);
  EXPECT_OFFSET(v3::Descriptor, rank, 16);
  EXPECT_OFFSET(v3::Descriptor, coll.name, 24);
  EXPECT_OFFSET(v3::Descriptor, coll.comm_hash, 32);
  EXPECT_OFFSET(v3::Descriptor, coll.sequence, 40);
  EXPECT_OFFSET(v3::Descriptor, coll.function, 48);
  EXPECT_OFFSET(v3::Descriptor, coll.send_buffer, 56);
  EXPECT_OFFSET(v3::Descriptor, coll.receive_buffer, 64);
  EXPECT_OFFSET(v3::Descriptor, coll.count, 72);
  EXPECT_OFFSET(v3::Descriptor, coll.root, 80);
  EXPECT_OFFSET(v3::Descriptor, coll.datatype, 88);
  EXPECT_OFFSET(v3::Descriptor, coll.channels, 96);
  EXPECT_OFFSET(v3::Descriptor, coll.warps, 97);
  EXPECT_OFFSET(v3::Descriptor, coll.algorithm, 104);
  EXPECT_OFFSET(v3::Descriptor, coll.protocol, 112);
  EXPECT_OFFSET(v3::Descriptor, p2p.name, 24);
  EXPECT_OFFSET(v3::Descriptor, p2p.comm_hash, 32);
  EXPECT_OFFSET(v3::Descriptor, p2p.function, 40);
  EXPECT_OFFSET(v3::Descriptor, p2p.buffer, 48);
  EXPECT_OFFSET(v3::Descriptor, p2p.datatype, 56);
  EXPECT_OFFSET(v3::Descriptor, p2p.count, 64);
  EXPECT_OFFSET(v3::Descriptor, p2p.peer, 72);
  EXPECT_OFFSET(v3::Descriptor, proxy_op.pid, 24);
  EXPECT_OFFSET(v3::Descriptor, proxy_op.channel, 28);
  EXPECT_OFFSET(v3::Descriptor, proxy_op.peer, 32);
  EXPECT_OFFSET(v3::Descriptor, proxy_op.steps, 36);
  EXPECT_OFFSET(v3::Descriptor, proxy_op.chunk_bytes, 40);
  EXPECT_OFFSET(v3::Descriptor, proxy_op.is_send, 44);
  EXPECT_OFFSET(v3::Descriptor, proxy_step.step, 24);
  EXPECT_OFFSET(v3::Descriptor, kernel_ch.channel, 24);
  EXPECT_OFFSET(v3::Descriptor, net_plugin.id, 24);
  EXPECT_OFFSET(v3::Descriptor, net_plugin.data, 32);
}

TEST(NcclAbi, DescriptorV4) {
  EXPECT_EQ(sizeof(v4::Descriptor), 104);
  EXPECT_OFFSET(v4::Descriptor, type, 0);
  EXPECT_OFFSET(v4::Descriptor, parent, 8);
  EXPECT_OFFSET(v4::Descriptor, rank, 16);
  EXPECT_OFFSET(v4::Descriptor, coll.sequence, 24);
  EXPECT_OFFSET(v4::Descriptor, coll.function, 32);
  EXPECT_OFFSET(v4::Descriptor, coll.send_buffer, 40);
  EXPECT_OFFSET(v4::Descriptor, coll.receive_buffer, 48);
  EXPECT_OFFSET(v4::Descriptor, coll.count, 56);
  EXPECT_OFFSET(v4::Descriptor, coll.root, 64);
  EXPECT_OFFSET(v4::Descriptor, coll.datatype, 72);
  EXPECT_OFFSET(v4::Descriptor, coll.channels, 80);
  EXPECT_OFFSET(v4::Descriptor, coll.warps, 81);
  EXPECT_OFFSET(v4::Descriptor, coll.algorithm, 88);
  EXPECT_OFFSET(v4::Descriptor, coll.protocol, 96);
  EXPECT_OFFSET(v4::Descriptor, p2p.function, 24);
  EXPECT_OFFSET(v4::Descriptor, p2p.buffer, 32);
  EXPECT_OFFSET(v4::Descriptor, p2p.datatype, 40);
  EXPECT_OFFSET(v4::Descriptor, p2p.count, 48);
  EXPECT_OFFSET(v4::Descriptor, p2p.peer, 56);
  EXPECT_OFFSET(v4::Descriptor, p2p.channels, 60);
  EXPECT_OFFSET(v4::Descriptor, proxy_op.pid, 24);
  EXPECT_OFFSET(v4::Descriptor, proxy_op.channel, 28);
  EXPECT_OFFSET(v4::Descriptor, proxy_op.peer, 32);
  EXPECT_OFFSET(v4::Descriptor, proxy_op.steps, 36);
  EXPECT_OFFSET(v4::Descriptor, proxy_op.chunk_bytes, 40);
  EXPECT_OFFSET(v4::Descriptor, proxy_op.is_send, 44);
  EXPECT_OFFSET(v4::Descriptor, proxy_step.step, 24);
  EXPECT_OFFSET(v4::Descriptor, kernel_ch.channel, 24);
  EXPECT_OFFSET(v4::Descriptor, kernel_ch.gpu_timer_ns, 32);
  EXPECT_OFFSET(v4::Descriptor, net_plugin.id, 24);
  EXPECT_OFFSET(v4::Descriptor, net_plugin.data, 32);
}

TEST(NcclAbi, DescriptorV5) {
  EXPECT_EQ(sizeof(v5::Descriptor), 112);
  EXPECT_OFFSET(v5::Descriptor, type, 0);
  EXPECT_OFFSET(v5::Descriptor, parent, 8);
  EXPECT_OFFSET(v5::Descriptor, rank, 16);
  EXPECT_OFFSET(v5::Descriptor, group_api.graph_captured, 24);
  EXPECT_OFFSET(v5::Descriptor, group_api.depth, 28);
  EXPECT_OFFSET(v5::Descriptor, coll_api.function, 24);
  EXPECT_OFFSET(v5::Descriptor, coll_api.count, 32);
  EXPECT_OFFSET(v5::Descriptor, coll_api.datatype, 40);
  EXPECT_OFFSET(v5::Descriptor, coll_api.root, 48);
  EXPECT_OFFSET(v5::Descriptor, coll_api.stream, 56);
  EXPECT_OFFSET(v5::Descriptor, coll_api.graph_captured, 64);
  EXPECT_OFFSET(v5::Descriptor, p2p_api.function, 24);
  EXPECT_OFFSET(v5::Descriptor, p2p_api.count, 32);
  EXPECT_OFFSET(v5::Descriptor, p2p_api.datatype, 40);
  EXPECT_OFFSET(v5::Descriptor, p2p_api.stream, 48);
  EXPECT_OFFSET(v5::Descriptor, p2p_api.graph_captured, 56);
  EXPECT_OFFSET(v5::Descriptor, kernel_launch.stream, 24);
  EXPECT_OFFSET(v5::Descriptor, coll.sequence, 24);
  EXPECT_OFFSET(v5::Descriptor, coll.function, 32);
  EXPECT_OFFSET(v5::Descriptor, coll.send_buffer, 40);
  EXPECT_OFFSET(v5::Descriptor, coll.receive_buffer, 48);
  EXPECT_OFFSET(v5::Descriptor, coll.count, 56);
  EXPECT_OFFSET(v5::Descriptor, coll.root, 64);
  EXPECT_OFFSET(v5::Descriptor, coll.datatype, 72);
  EXPECT_OFFSET(v5::Descriptor, coll.channels, 80);
  EXPECT_OFFSET(v5::Descriptor, coll.warps, 81);
  EXPECT_OFFSET(v5::Descriptor, coll.algorithm, 88);
  EXPECT_OFFSET(v5::Descriptor, coll.protocol, 96);
  EXPECT_OFFSET(v5::Descriptor, coll.parent_group, 104);
  EXPECT_OFFSET(v5::Descriptor, p2p.function, 24);
  EXPECT_OFFSET(v5::Descriptor, p2p.buffer, 32);
  EXPECT_OFFSET(v5::Descriptor, p2p.datatype, 40);
  EXPECT_OFFSET(v5::Descriptor, p2p.count, 48);
  EXPECT_OFFSET(v5::Descriptor, p2p.peer, 56);
  EXPECT_OFFSET(v5::Descriptor, p2p.channels, 60);
  EXPECT_OFFSET(v5::Descriptor, p2p.parent_group, 64);
  EXPECT_OFFSET(v5::Descriptor, proxy_op.pid, 24);
  EXPECT_OFFSET(v5::Descriptor, proxy_op.channel, 28);
  EXPECT_OFFSET(v5::Descriptor, proxy_op.peer, 32);
  EXPECT_OFFSET(v5::Descriptor, proxy_op.steps, 36);
  EXPECT_OFFSET(v5::Descriptor, proxy_op.chunk_bytes, 40);
  EXPECT_OFFSET(v5::Descriptor, proxy_op.is_send, 44);
  EXPECT_OFFSET(v5::Descriptor, proxy_step.step, 24);
  EXPECT_OFFSET(v5::Descriptor, kernel_ch.channel, 24);
  EXPECT_OFFSET(v5::Descriptor, kernel_ch.gpu_timer_ns, 32);
  EXPECT_OFFSET(v5::Descriptor, net_plugin.id, 24);
  EXPECT_OFFSET(v5::Descriptor, net_plugin.data, 32);
}

TEST(NcclAbi, DescriptorV6) {
  EXPECT_EQ(sizeof(v6::Descriptor), 112);
  EXPECT_OFFSET(v6::Descriptor, type, 0);
  EXPECT_OFFSET(v6::Descriptor, parent, 8);
  EXPECT_OFFSET(v6::Descriptor, rank, 16);
  EXPECT_OFFSET(v6::Descriptor, group_api.graph_captured, 24);
  EXPECT_OFFSET(v6::Descriptor, group_api.depth, 28);
  EXPECT_OFFSET(v6::Descriptor, coll_api.function, 24);
  EXPECT_OFFSET(v6::Descriptor, coll_api.count, 32);
  EXPECT_OFFSET(v6::Descriptor, coll_api.datatype, 40);
  EXPECT_OFFSET(v6::Descriptor, coll_api.root, 48);
  EXPECT_OFFSET(v6::Descriptor, coll_api.stream, 56);
  EXPECT_OFFSET(v6::Descriptor, coll_api.graph_captured, 64);
  EXPECT_OFFSET(v6::Descriptor, p2p_api.function, 24);
  EXPECT_OFFSET(v6::Descriptor, p2p_api.count, 32);
  EXPECT_OFFSET(v6::Descriptor, p2p_api.datatype, 40);
  EXPECT_OFFSET(v6::Descriptor, p2p_api.stream, 48);
  EXPECT_OFFSET(v6::Descriptor, p2p_api.graph_captured, 56);
  EXPECT_OFFSET(v6::Descriptor, kernel_launch.stream, 24);
  EXPECT_OFFSET(v6::Descriptor, coll.sequence, 24);
  EXPECT_OFFSET(v6::Descriptor, coll.function, 32);
  EXPECT_OFFSET(v6::Descriptor, coll.send_buffer, 40);
  EXPECT_OFFSET(v6::Descriptor, coll.receive_buffer, 48);
  EXPECT_OFFSET(v6::Descriptor, coll.count, 56);
  EXPECT_OFFSET(v6::Descriptor, coll.root, 64);
  EXPECT_OFFSET(v6::Descriptor, coll.datatype, 72);
  EXPECT_OFFSET(v6::Descriptor, coll.channels, 80);
  EXPECT_OFFSET(v6::Descriptor, coll.warps, 81);
  EXPECT_OFFSET(v6::Descriptor, coll.algorithm, 88);
  EXPECT_OFFSET(v6::Descriptor, coll.protocol, 96);
  EXPECT_OFFSET(v6::Descriptor, coll.parent_group, 104);
  EXPECT_OFFSET(v6::Descriptor, p2p.function, 24);
  EXPECT_OFFSET(v6::Descriptor, p2p.buffer, 32);
  EXPECT_OFFSET(v6::Descriptor, p2p.datatype, 40);
  EXPECT_OFFSET(v6::Descriptor, p2p.count, 48);
  EXPECT_OFFSET(v6::Descriptor, p2p.peer, 56);
  EXPECT_OFFSET(v6::Descriptor, p2p.channels, 60);
  EXPECT_OFFSET(v6::Descriptor, p2p.parent_group, 64);
  EXPECT_OFFSET(v6::Descriptor, proxy_op.pid, 24);
  EXPECT_OFFSET(v6::Descriptor, proxy_op.channel, 28);
  EXPECT_OFFSET(v6::Descriptor, proxy_op.peer, 32);
  EXPECT_OFFSET(v6::Descriptor, proxy_op.steps, 36);
  EXPECT_OFFSET(v6::Descriptor, proxy_op.chunk_bytes, 40);
  EXPECT_OFFSET(v6::Descriptor, proxy_op.is_send, 44);
  EXPECT_OFFSET(v6::Descriptor, proxy_step.step, 24);
  EXPECT_OFFSET(v6::Descriptor, kernel_ch.channel, 24);
  EXPECT_OFFSET(v6::Descriptor, kernel_ch.gpu_timer_ns, 32);
  EXPECT_OFFSET(v6::Descriptor, net_plugin.id, 24);
  EXPECT_OFFSET(v6::Descriptor, net_plugin.data, 32);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.sequence, 24);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.function, 32);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.send_buffer, 40);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.receive_buffer, 48);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.count, 56);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.root, 64);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.datatype, 72);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.sync_strategy, 80);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.intra_batch_sync, 88);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.batch_size, 92);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.batches, 96);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.ce_sequence, 100);
  EXPECT_OFFSET(v6::Descriptor, ce_coll.stream, 104);
  EXPECT_OFFSET(v6::Descriptor, ce_sync.is_complete, 24);
  EXPECT_OFFSET(v6::Descriptor, ce_sync.ranks, 28);
  EXPECT_OFFSET(v6::Descriptor, ce_batch.operations, 24);
  EXPECT_OFFSET(v6::Descriptor, ce_batch.total_bytes, 32);
  EXPECT_OFFSET(v6::Descriptor, ce_batch.use_intra_sync, 40);
}

template <typename Table>
void expect_function_table() {
  EXPECT_EQ(sizeof(Table), 48);
  EXPECT_OFFSET(Table, name, 0);
  EXPECT_OFFSET(Table, init, 8);
  EXPECT_OFFSET(Table, start_event, 16);
  EXPECT_OFFSET(Table, stop_event, 24);
  EXPECT_OFFSET(Table, record_event_state, 32);
  EXPECT_OFFSET(Table, finalize, 40);
}

TEST(NcclAbi, FunctionTables) {
  expect_function_table<v1::Profiler>();
  expect_function_table<v2::Profiler>();
  expect_function_table<v3::Profiler>();
  expect_function_table<v4::Profiler>();
  expect_function_table<v5::Profiler>();
  expect_function_table<v6::Profiler>();
}

TEST(NcclAbi, StateArguments) {
  EXPECT_EQ(sizeof(StateArgumentsV1), 16);
  EXPECT_OFFSET(StateArgumentsV1, proxy_op.transferred_bytes, 0);
  EXPECT_OFFSET(StateArgumentsV1, proxy_op.steps, 8);
  EXPECT_OFFSET(StateArgumentsV1, proxy_ctrl.appended_ops, 0);
  EXPECT_EQ(sizeof(StateArgumentsV4), 8);
  EXPECT_OFFSET(StateArgumentsV4, proxy_step.transferred_bytes, 0);
  EXPECT_OFFSET(StateArgumentsV4, proxy_ctrl.appended_ops, 0);
  EXPECT_OFFSET(StateArgumentsV4, net_plugin.data, 0);
  EXPECT_OFFSET(StateArgumentsV4, kernel_ch.gpu_timer_ns, 0);
}

TEST(NcclAbi, NetworkEvents) {
  EXPECT_EQ(sizeof(NetSocketV1), 24);
  EXPECT_OFFSET(NetSocketV1, type, 0);
  EXPECT_OFFSET(NetSocketV1, socket.fd, 8);
  EXPECT_OFFSET(NetSocketV1, socket.operation, 12);
  EXPECT_OFFSET(NetSocketV1, socket.length_bytes, 16);
  EXPECT_EQ(sizeof(NetIbV1), 40);
  EXPECT_OFFSET(NetIbV1, type, 0);
  EXPECT_OFFSET(NetIbV1, request.device, 8);
  EXPECT_OFFSET(NetIbV1, request.work_request, 16);
  EXPECT_OFFSET(NetIbV1, request.opcode, 24);
  EXPECT_OFFSET(NetIbV1, request.queue_pair, 28);
  EXPECT_OFFSET(NetIbV1, request.length_bytes, 32);
}

TEST(NcclAbi, EventBits) {
  EXPECT_EQ(kEventGroup, 1);
  EXPECT_EQ(kEventColl, 2);
  EXPECT_EQ(kEventP2p, 4);
  EXPECT_EQ(kEventProxyOp, 8);
  EXPECT_EQ(kEventProxyStep, 16);
  EXPECT_EQ(kEventProxyCtrl, 32);
  EXPECT_EQ(kEventKernelCh, 64);
  EXPECT_EQ(kEventNetPlugin, 128);
  EXPECT_EQ(kEventGroupApi, 256);
  EXPECT_EQ(kEventCollApi, 512);
  EXPECT_EQ(kEventP2pApi, 1024);
  EXPECT_EQ(kEventKernelLaunch, 2048);
  EXPECT_EQ(kEventCeColl, 4096);
  EXPECT_EQ(kEventCeSync, 8192);
  EXPECT_EQ(kEventCeBatch, 16384);
}

}  // namespace
}  // namespace stalltrace::nccl
