// SPDX-License-Identifier: Apache-2.0
// Events of later interface versions: kernels and network plugins (v3), calls (v5), copy engines (v6).
#include <gtest/gtest.h>

#include <cstdlib>

#include "plugin/testing/host.h"

namespace stalltrace::plugin::testing {
namespace {

template <typename V>
class KernelVersions : public LibraryTest {};
using VersionsWithKernels = ::testing::Types<V3, V4, V5, V6>;
TYPED_TEST_SUITE(KernelVersions, VersionsWithKernels);

TYPED_TEST(KernelVersions, KernelChannelsEndACollective) {
  using V = TypeParam;
  Job<V> job(this->library_);
  EXPECT_NE(job.mask() & nccl::kEventKernelCh, 0U);
  void* coll = job.coll(nullptr, {.channels = 2});
  void* first = job.kernel(coll, 0, 5000);
  job.stop(coll);
  void* second = job.kernel(coll, 1, 4000);
  job.kernel_stop(second, 8000);
  job.kernel_stop(first, 9000);
  const BoxView view = this->folder_.read();
  const auto colls = view.of_type(ST_BOX_COLL);
  ASSERT_EQ(colls.size(), 1U);
  const st_box_coll& done = colls[0].u.coll;
  EXPECT_EQ(done.kernels_started, 2);
  EXPECT_EQ(done.kernels_ended, 2);
  EXPECT_EQ(colls[0].flags, ST_BOX_KERNEL_EXPECTED | ST_BOX_WHOLE_COLL);
  EXPECT_EQ(done.gpu_start_ns, V::kNumber >= 4 ? 4000U : 0U);
  EXPECT_EQ(done.gpu_stop_ns, V::kNumber >= 4 ? 9000U : 0U);
  EXPECT_LE(colls[0].start_ns, done.kernel_start_ns);
  EXPECT_LT(done.kernel_start_ns, colls[0].end_ns);
  EXPECT_EQ(view.of_type(ST_BOX_KERNEL_CHANNEL).size(), 0U) << "summed up in the collective";
  EXPECT_TRUE(view.open.empty());
}

TYPED_TEST(KernelVersions, ACommunicatorOfOneRankExpectsNoKernel) {
  using V = TypeParam;
  Job<V> job(this->library_, 1, 1, 0);
  job.stop(job.coll(nullptr, {}));
  const BoxView view = this->folder_.read();
  ASSERT_EQ(view.open.size(), 1U);
  const uint8_t expected = V::kNumber >= 4 ? 0 : ST_BOX_KERNEL_EXPECTED;  // v3 does not report the number of ranks
  EXPECT_EQ(view.open[0].flags, expected);
}

TYPED_TEST(KernelVersions, NetworkPluginsOwnStructs) {
  using V = TypeParam;
  setenv("STALLTRACE_EVENTS", "all", 1);
  Job<V> job(this->library_);
  void* step = job.step(job.op(job.coll(nullptr, {}), true, 2), 0);
  const auto net = [&](int64_t id, void* data) {
    typename V::Descriptor event = job.descriptor(nccl::kEventNetPlugin, step);
    event.net_plugin = {id, data};
    return job.start(event);
  };
  nccl::NetSocketV1 socket{1, {42, 1, 8192}};
  nccl::NetIbV1 queue{1, {3, 77, 2, 9, 4096}};
  void* one = net(nccl::kNetTypeSocket | 1, &socket);
  void* two = net(nccl::kNetTypeIb | 1, &queue);
  void* unknown = net(0x1230001, reinterpret_cast<void*>(0x10));  // never dereferenced
  void* empty = net(nccl::kNetTypeSocket | 1, nullptr);
  job.state(one, nccl::kStateNetPluginUpdate);
  for (void* handle : {one, two, unknown, empty}) {
    job.stop(handle);
  }
  const auto events = this->folder_.read().of_type(ST_BOX_NET);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].u.net.fd_or_device, 42);
  EXPECT_EQ(events[0].u.net.length_bytes, 8192U);
  EXPECT_EQ(events[0].u.net.updates, 1U);
  EXPECT_EQ(events[1].u.net.fd_or_device, 3);
  EXPECT_EQ(events[1].u.net.queue_pair, 9);
  EXPECT_EQ(events[2].u.net.plugin_id, 0x1230001);
  EXPECT_EQ(events[3].u.net.fd_or_device, -1);
}

template <typename V>
class ApiVersions : public LibraryTest {};
using VersionsWithApi = ::testing::Types<V5, V6>;
TYPED_TEST_SUITE(ApiVersions, VersionsWithApi);

TYPED_TEST(ApiVersions, CallsAreParentsOfWhatTheyStart) {
  using V = TypeParam;
  setenv("STALLTRACE_EVENTS", "all", 1);
  Job<V> job(this->library_);
  auto event = job.descriptor(nccl::kEventGroupApi, nullptr);
  event.group_api = {true, 1};
  void* group = job.start(event);
  EXPECT_EQ(job.table().record_event_state(group, nccl::kStateGroupStartApiStop, nullptr), 0);
  event = job.descriptor(nccl::kEventCollApi, group);
  event.coll_api = {"Broadcast", 64, "ncclInt8", 2, reinterpret_cast<void*>(0x5000), true};
  void* call = job.start(event);
  job.stop(call);
  event = job.descriptor(nccl::kEventP2pApi, group);
  event.p2p_api = {"Send", 32, "ncclInt8", reinterpret_cast<void*>(0x6000), false};
  job.stop(job.start(event));
  EXPECT_EQ(job.table().record_event_state(group, nccl::kStateGroupEndApiStart, nullptr), 0);
  void* coll = job.coll(call, {});
  event = job.descriptor(nccl::kEventKernelLaunch, group);
  event.kernel_launch = {reinterpret_cast<void*>(0x5000)};
  job.stop(job.start(event));
  job.stop(coll);
  job.stop(group);
  job.stop(job.op(coll, true, 2));

  const BoxView view = this->folder_.read();
  const st_box_event group_call = view.of_type(ST_BOX_GROUP_API).at(0);
  EXPECT_EQ(group_call.u.api.depth, 1);
  EXPECT_LE(group_call.start_ns, group_call.u.api.start_returned_ns);
  EXPECT_LE(group_call.u.api.start_returned_ns, group_call.u.api.end_entered_ns);
  EXPECT_LE(group_call.u.api.end_entered_ns, group_call.end_ns);
  const st_box_event api = view.of_type(ST_BOX_COLL_API).at(0);
  EXPECT_EQ(api.parent, group_call.id);
  EXPECT_EQ(api.u.api.operation, ST_BOX_OP_BROADCAST);
  EXPECT_EQ(api.u.api.root, 2);
  EXPECT_EQ(api.u.api.stream, 0x5000U);
  EXPECT_EQ(api.flags, ST_BOX_GRAPH_CAPTURED);
  EXPECT_EQ(view.of_type(ST_BOX_P2P_API).at(0).u.api.operation, ST_BOX_OP_SEND);
  EXPECT_EQ(view.of_type(ST_BOX_KERNEL_LAUNCH).at(0).parent, group_call.id);
  EXPECT_EQ(view.of_type(ST_BOX_COLL).at(0).parent, api.id);
}

TYPED_TEST(ApiVersions, WhatIsNotChosenHasNoHandle) {
  using V = TypeParam;
  setenv("STALLTRACE_EVENTS", "coll,kernel", 1);
  Job<V> job(this->library_);
  EXPECT_EQ(job.mask(), nccl::kEventColl | nccl::kEventKernelCh);
  EXPECT_EQ(job.start(job.descriptor(nccl::kEventCollApi, nullptr)), nullptr);
  EXPECT_EQ(job.start(job.descriptor(nccl::kEventProxyCtrl, nullptr)), nullptr);
  EXPECT_NE(job.coll(nullptr, {}), nullptr);
}

class CopyEngine : public LibraryTest {};

TEST_F(CopyEngine, CollectivesOfTheCopyEngines) {
  setenv("STALLTRACE_EVENTS", "all", 1);
  Job<V6> job(library_);
  auto event = job.descriptor(nccl::kEventCeColl, nullptr);
  event.ce_coll = {
      9, "AllGather", nullptr, nullptr, 512, 1, "ncclFloat16", "MC", true, 2, 3, 4, reinterpret_cast<void*>(0x7000)};
  void* coll = job.start(event);
  event = job.descriptor(nccl::kEventCeSync, coll);
  event.ce_sync = {true, 8};
  job.stop(job.start(event));
  event = job.descriptor(nccl::kEventCeBatch, coll);
  event.ce_batch = {6, 65536, true};
  job.stop(job.start(event));
  job.state(coll, nccl::kStateCeCollComplete);
  job.stop(coll);
  const BoxView view = folder_.read();
  const st_box_event ended = view.of_type(ST_BOX_CE_COLL).at(0);
  EXPECT_EQ(ended.u.ce.sequence, 9U);
  EXPECT_EQ(ended.u.ce.operation, ST_BOX_OP_ALL_GATHER);
  EXPECT_EQ(ended.u.ce.count, 512U);
  EXPECT_EQ(ended.u.ce.multicast, 1);
  EXPECT_EQ(ended.u.ce.batches, 3U);
  EXPECT_EQ(ended.u.ce.stream, 0x7000U);
  EXPECT_EQ(view.of_type(ST_BOX_CE_SYNC).at(0).u.ce.batches, 8U);
  EXPECT_EQ(view.of_type(ST_BOX_CE_SYNC).at(0).parent, ended.id);
  EXPECT_EQ(view.of_type(ST_BOX_CE_BATCH).at(0).u.ce.count, 65536U);
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_UNKNOWN_STATE], 0U);
}

}  // namespace
}  // namespace stalltrace::plugin::testing
