// SPDX-License-Identifier: Apache-2.0
// The library as NCCL uses it, through every version of its interface; the file must contain everything that NCCL
// reported.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "plugin/testing/host.h"

namespace stalltrace::plugin::testing {
namespace {

template <typename V>
class EveryVersion : public LibraryTest {};
using EachVersion = ::testing::Types<V1, V2, V3, V4, V5, V6>;
TYPED_TEST_SUITE(EveryVersion, EachVersion);

/// One step of a send with all of its states.
template <typename V>
void send_step(Job<V>& job, void* op, int number, size_t bytes) {
  void* step = job.step(op, number);
  job.state(step, nccl::kStateSendGpuWait);
  if constexpr (V::kNumber >= 4) {
    for (int repeat = 0; repeat < 3; ++repeat) {  // NCCL repeats it while the peer is not ready
      job.state(step, nccl::kStateSendPeerWait);
    }
  }
  job.state(step, nccl::kStateSendWait, bytes);
  job.stop(step);
}

TYPED_TEST(EveryVersion, ACollectiveEndsWithItsLastPart) {
  using V = TypeParam;
  Job<V> job(this->library_);
  void* group = job.group();
  void* coll = job.coll(group, {.sequence = 7, .count = 4096, .root = 3, .channels = 2});
  ASSERT_NE(coll, nullptr);
  job.stop(coll);
  job.stop(group);
  void* send = job.op(coll, true, 2, 0);
  void* receive = job.op(coll, false, 0, 1);
  job.state(send, V::kNumber >= 4 ? nccl::kStateOpInProgress : nccl::kStateSendPosted);
  send_step(job, send, 0, 1000);
  send_step(job, send, 1, 500);
  job.stop(send);
  EXPECT_EQ(this->folder_.read().of_type(ST_BOX_COLL).size(), 0U) << "a part is open";
  job.stop(receive);

  const BoxView view = this->folder_.read();
  const auto colls = view.of_type(ST_BOX_COLL);
  const auto ops = view.of_type(ST_BOX_PROXY_OP);
  ASSERT_EQ(colls.size(), 1U);
  ASSERT_EQ(ops.size(), 2U);
  const st_box_event& event = colls[0];
  EXPECT_EQ(event.id, reinterpret_cast<uint64_t>(coll));
  EXPECT_EQ(event.rank, 1);
  EXPECT_EQ(event.channels, 2);
  EXPECT_EQ(event.tid, static_cast<uint32_t>(gettid()));
  EXPECT_EQ(event.u.coll.sequence, 7U);
  EXPECT_EQ(event.u.coll.call_number, 0U);
  EXPECT_EQ(event.u.coll.count, 4096U);
  EXPECT_EQ(event.u.coll.root_or_peer, 3);
  EXPECT_EQ(event.u.coll.operation, ST_BOX_OP_ALL_REDUCE);
  EXPECT_EQ(event.u.coll.datatype, 7);
  EXPECT_EQ(event.u.coll.algorithm, ST_BOX_ALGO_RING);
  EXPECT_EQ(event.u.coll.protocol, ST_BOX_PROTO_SIMPLE);
  EXPECT_EQ(event.u.coll.ops_started, 2);
  EXPECT_EQ(event.u.coll.ops_ended, 2);
  EXPECT_LE(event.start_ns, event.u.coll.enqueued_ns);
  EXPECT_LT(event.u.coll.enqueued_ns, event.end_ns);
  EXPECT_EQ(event.end_ns, std::max(ops[0].end_ns, ops[1].end_ns));

  const st_box_proxy_op& operation = ops[0].u.proxy_op;
  EXPECT_EQ(ops[0].parent, event.id);
  EXPECT_EQ(ops[0].flags, ST_BOX_SEND_SIDE | ST_BOX_COUNTED);
  EXPECT_EQ(operation.peer, 2);
  EXPECT_EQ(operation.maker_pid, getpid());
  EXPECT_EQ(operation.steps, 4);
  EXPECT_EQ(operation.steps_ended, 2U);
  EXPECT_NE(operation.in_progress_ns, 0U);
  EXPECT_EQ(operation.transferred_bytes, V::kNumber >= 4 ? 1500U : 0U) << "before v4 the operation's states report it";
  EXPECT_EQ(view.of_type(ST_BOX_PROXY_STEP).size(), 0U) << "summed up in the operation";
  EXPECT_TRUE(view.open.empty());
  EXPECT_EQ(view.unreadable, 0U);
  for (const uint64_t lost : view.header.lost) {
    EXPECT_EQ(lost, 0U);
  }
}

TYPED_TEST(EveryVersion, AGroupThatIsNotKeptIsAnsweredAllTheSame) {
  using V = TypeParam;
  Job<V> job(this->library_);
  void* group = job.group();
  ASSERT_NE(group, nullptr) << "NCCL up to 2.27 reports no collective without";
  void* coll = job.coll(group, {});
  job.stop(coll);
  job.stop(group);
  job.stop(job.op(coll, true, 2));
  const BoxView view = this->folder_.read();
  ASSERT_EQ(view.of_type(ST_BOX_COLL).size(), 1U);
  EXPECT_EQ(view.of_type(ST_BOX_COLL)[0].parent, 0U);
  EXPECT_EQ(view.of_type(ST_BOX_GROUP).size(), 0U);
  for (const uint64_t lost : view.header.lost) {
    EXPECT_EQ(lost, 0U);
  }
}

TYPED_TEST(EveryVersion, TheHeaderReportsWhoWrites) {
  using V = TypeParam;
  setenv("RANK", "5", 1);
  setenv("WORLD_SIZE", "8", 1);
  setenv("SLURM_JOB_ID", "job-7", 1);
  Job<V> job(this->library_, 0x1234, 4, 1);
  job.stop(job.coll(nullptr, {}));
  const BoxView view = this->folder_.read();
  const st_box_header& header = view.header;
  EXPECT_EQ(header.version, ST_BOX_VERSION);
  EXPECT_EQ(header.byte_order, ST_BOX_BYTE_ORDER);
  EXPECT_EQ(header.interface_version, static_cast<uint32_t>(V::kNumber));
  EXPECT_EQ(header.pid, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(header.state, ST_BOX_RECORDING);
  EXPECT_EQ(header.open_communicators, 1U);
  EXPECT_EQ(header.env_rank, 5);
  EXPECT_EQ(header.env_local_rank, -1);
  EXPECT_EQ(header.env_world_size, 8);
  EXPECT_STREQ(header.job_id, "job-7");
  EXPECT_EQ(strlen(header.boot_id), 36U);
  EXPECT_NE(header.hostname[0], '\0');
  EXPECT_NE(strstr(header.command, "test_plugin"), nullptr);
  EXPECT_GE(header.anchors_written, 1U);
  const st_box_clock_anchor anchor = header.anchors[0];
  EXPECT_GT(anchor.realtime_ns, anchor.monotonic_ns);
  unsetenv("RANK");
  unsetenv("WORLD_SIZE");
  unsetenv("SLURM_JOB_ID");

  ASSERT_EQ(view.communicators.size(), 1U);
  const st_box_communicator& communicator = view.communicators[0];
  EXPECT_EQ(communicator.hash, 0x1234U);
  EXPECT_EQ(communicator.rank, 1);
  EXPECT_EQ(communicator.ranks, V::kNumber >= 4 ? 4 : 0);
  EXPECT_STREQ(communicator.name, V::kNumber >= 4 ? "world" : "");
  EXPECT_EQ(communicator.collectives, 1U);
  EXPECT_EQ(communicator.destroyed_ns, 0U);
  job.finish();
  const BoxView after = this->folder_.read();
  EXPECT_NE(after.communicators.at(0).destroyed_ns, 0U);
  EXPECT_EQ(after.header.state, ST_BOX_CLOSED);
}

TYPED_TEST(EveryVersion, NestedGroupsOfTransfersAreCountedPerPeer) {
  using V = TypeParam;
  setenv("STALLTRACE_EVENTS", "default,group", 1);
  Job<V> job(this->library_);
  for (int round = 0; round < 3; ++round) {
    void* outer = job.group();
    void* inner = job.group();
    EXPECT_NE(outer, inner);
    void* send = job.p2p(outer, true, 2, 100);
    void* receive = job.p2p(inner, false, 3, 200);
    job.stop(send);
    job.stop(receive);
    job.stop(outer);  // out of order
    job.stop(inner);
    void* send_op = job.op(send, true, 2);
    void* receive_op = job.op(receive, false, 3);
    job.stop(send_op);
    job.stop(receive_op);
  }
  const BoxView view = this->folder_.read();
  const auto transfers = view.of_type(ST_BOX_P2P);
  ASSERT_EQ(transfers.size(), 6U);
  EXPECT_EQ(view.of_type(ST_BOX_GROUP).size(), 6U);
  for (size_t index = 0; index < transfers.size(); ++index) {
    const st_box_coll& transfer = transfers[index].u.coll;
    const bool send = index % 2 == 0;
    EXPECT_EQ(transfer.operation, send ? ST_BOX_OP_SEND : ST_BOX_OP_RECV);
    EXPECT_EQ(transfer.root_or_peer, send ? 2 : 3);
    EXPECT_EQ(transfer.sequence, index / 2) << "n-th with this peer, in this direction";
    EXPECT_EQ(transfer.count, send ? 100U : 200U);
    EXPECT_EQ(transfer.datatype, 0);
    EXPECT_NE(transfers[index].flags & ST_BOX_OWN_SEQUENCE, 0);
  }
  EXPECT_EQ(view.communicators.at(0).sends, 3U);
  EXPECT_EQ(view.communicators.at(0).receives, 3U);
}

TYPED_TEST(EveryVersion, PartsOfATransferSaySo) {
  Job<TypeParam> job(this->library_);
  for (const bool transfer : {false, true}) {
    void* whole = transfer ? job.p2p(nullptr, true, 2, 100) : job.coll(nullptr, {});
    void* op = job.op(whole, true, 2);
    void* step = job.step(op, 0);
    const BoxView view = this->folder_.read();
    int parts = 0;
    for (const st_box_event& event : view.open) {
      if (event.type == ST_BOX_PROXY_OP || event.type == ST_BOX_PROXY_STEP) {
        EXPECT_EQ((event.flags & ST_BOX_OF_P2P) != 0, transfer);
        ++parts;
      }
    }
    EXPECT_EQ(parts, 2);
    job.stop(step);
    job.stop(op);
    job.stop(whole);
  }
}

TYPED_TEST(EveryVersion, EndsOutOfOrderTwiceAndOfNothing) {
  using V = TypeParam;
  Job<V> job(this->library_);
  void* coll = job.coll(nullptr, {});
  void* op = job.op(coll, true, 2);
  void* step = job.step(op, 0);
  job.state(step, nccl::kStateSendGpuWait);
  job.stop(op);    // before its step
  job.stop(step);  // its operation is gone
  job.stop(coll);  // after its part
  job.stop(coll);  // twice
  job.stop(op);
  job.state(op, nccl::kStateSendPosted);
  job.stop(nullptr);
  EXPECT_EQ(job.table().record_event_state(nullptr, nccl::kStateSendWait, nullptr), 0);

  const BoxView view = this->folder_.read();
  const auto colls = view.of_type(ST_BOX_COLL);
  ASSERT_EQ(colls.size(), 1U);
  EXPECT_GT(colls[0].u.coll.enqueued_ns, colls[0].end_ns);
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_STALE_HANDLE], 3U);
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_LATE_PART], 1U);
  EXPECT_TRUE(view.open.empty());
}

TYPED_TEST(EveryVersion, ALatePartMovesTheEnd) {
  using V = TypeParam;
  Job<V> job(this->library_);
  void* coll = job.coll(nullptr, {});
  job.stop(coll);
  job.stop(job.op(coll, true, 2));
  const auto first = this->folder_.read().of_type(ST_BOX_COLL);
  ASSERT_EQ(first.size(), 1U);
  void* late = job.op(coll, false, 0);
  EXPECT_EQ(this->folder_.read().open.size(), 2U) << "the collective is open again, with the late part";
  job.stop(late);
  const BoxView view = this->folder_.read();
  const auto second = view.of_type(ST_BOX_COLL);
  ASSERT_EQ(second.size(), 1U) << "one id, reported twice";
  EXPECT_EQ(view.ended.size(), 4U);
  EXPECT_GT(second[0].end_ns, first[0].end_ns);
  EXPECT_EQ(second[0].u.coll.ops_ended, 2);
}

TYPED_TEST(EveryVersion, EventsOfAnotherProcessTouchNothingOfOurs) {
  using V = TypeParam;
  Job<V> job(this->library_);
  void* coll = job.coll(nullptr, {});
  const pid_t other = getpid() + 1;
  // A pointer from a neighbour with any value, even one in the format of ours.
  void* foreign = reinterpret_cast<void*>(0x7f0012345678);
  void* one = job.op(foreign, true, 2, 0, other);
  void* two = job.op(coll, true, 3, 0, other);
  ASSERT_NE(one, nullptr);
  send_step(job, one, 0, 77);
  job.stop(one);
  job.stop(two);
  job.stop(foreign);
  job.state(foreign, nccl::kStateSendWait);
  // A context of another process, as PXN passes on.
  typename V::Descriptor event = job.descriptor(nccl::kEventProxyOp, foreign);
  event.proxy_op = {other, 1, 2, 4, 65536, 1};
  void* handle = nullptr;
  EXPECT_EQ(job.table().start_event(foreign, &handle, &event), 0);
  job.stop(handle);

  const BoxView view = this->folder_.read();
  const auto ops = view.of_type(ST_BOX_PROXY_OP);
  ASSERT_EQ(ops.size(), 3U);
  EXPECT_EQ(ops[0].parent, reinterpret_cast<uint64_t>(foreign));
  EXPECT_EQ(ops[0].u.proxy_op.maker_pid, other);
  EXPECT_EQ(ops[0].u.proxy_op.steps_ended, 1U);
  for (const st_box_event& op : ops) {
    EXPECT_NE(op.flags & ST_BOX_FOREIGN_PARENT, 0);
    EXPECT_EQ(op.flags & ST_BOX_COUNTED, 0);
  }
  EXPECT_EQ(ops[2].communicator, 0U);
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_FOREIGN_HANDLE], 2U);
  ASSERT_EQ(view.open.size(), 1U);
  EXPECT_EQ(view.open[0].u.coll.ops_started, 0) << "not ours";
}

TYPED_TEST(EveryVersion, UnknownTypesAndStatesAreCounted) {
  using V = TypeParam;
  Job<V> job(this->library_);
  // Types unknown to this version: later types, several bits at once, none.
  for (const uint64_t type : {0x80000ULL, 3ULL, 0ULL}) {
    if (type < 256 || V::kNumber >= 5) {
      EXPECT_EQ(job.start(job.descriptor(type, nullptr)), nullptr);
    }
  }
  void* coll = job.coll(nullptr, {});
  void* op = job.op(coll, false, 2);
  void* step = job.step(op, 0);
  job.state(step, 999);
  job.state(op, nccl::kStateCtrlSleep);
  job.state(coll, nccl::kStateSendWait);
  EXPECT_EQ(job.table().record_event_state(step, nccl::kStateRecvWait, nullptr), 0);  // as before v4
  job.stop(step);
  job.stop(op);
  job.stop(coll);
  const BoxView view = this->folder_.read();
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_UNKNOWN_TYPE], V::kNumber >= 5 ? 3U : 2U);
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_UNKNOWN_STATE], 3U);
  EXPECT_EQ(view.of_type(ST_BOX_COLL).size(), 1U);
}

TYPED_TEST(EveryVersion, WhatIsOpenShowsWhatItWaitsFor) {
  using V = TypeParam;
  Job<V> job(this->library_);
  void* coll = job.coll(nullptr, {.sequence = 41});
  job.stop(coll);
  void* op = job.op(coll, false, 3, 1);
  void* step = job.step(op, 2);
  job.state(step, nccl::kStateRecvWait);

  const BoxView view = this->folder_.read();
  ASSERT_EQ(view.open.size(), 3U);
  const auto find = [&view](st_box_type type) {
    return *std::find_if(view.open.begin(), view.open.end(), [type](const auto& event) { return event.type == type; });
  };
  const st_box_event open_coll = find(ST_BOX_COLL);
  EXPECT_EQ(open_coll.u.coll.sequence, 41U);
  EXPECT_EQ(open_coll.commit & ST_BOX_PHASE_MASK, ST_BOX_ENDED);
  EXPECT_EQ(open_coll.commit >> ST_BOX_SLOT_PARTS_SHIFT & ST_BOX_SLOT_PARTS_MASK, 1U);
  const st_box_event open_step = find(ST_BOX_PROXY_STEP);
  EXPECT_EQ(open_step.u.proxy_step.state, ST_BOX_WAIT_NETWORK);
  EXPECT_GE(open_step.u.proxy_step.state_since_ns, open_step.start_ns);
  EXPECT_EQ(open_step.u.proxy_step.peer, 3);
  EXPECT_EQ(open_step.u.proxy_step.coll, open_coll.id);
  EXPECT_EQ(open_step.u.proxy_step.step, 2);
  EXPECT_EQ(open_step.channels, 1);
  EXPECT_EQ(open_step.flags & ST_BOX_SEND_SIDE, 0);

  job.finish();  // aborted: all of its events go to the ring, unfinished
  const BoxView after = this->folder_.read();
  EXPECT_TRUE(after.open.empty());
  const auto aborted = after.of_type(ST_BOX_COLL);
  ASSERT_EQ(aborted.size(), 1U);
  EXPECT_NE(aborted[0].flags & ST_BOX_UNFINISHED, 0);
  EXPECT_EQ(aborted[0].end_ns, 0U);
}

TYPED_TEST(EveryVersion, AStepThatWaitsLongIsARecordOnceARun) {
  Job<TypeParam> job(this->library_);
  void* coll = job.coll(nullptr, {});
  void* op = job.op(coll, false, 1);
  const auto steps = [&](int first, bool wait) {
    std::vector<void*> waiting;
    for (int number = first; number < first + 3; ++number) {
      waiting.push_back(job.step(op, number));
      job.state(waiting.back(), nccl::kStateRecvWait);
    }
    if (wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(6));
    }
    for (void* step : waiting) {
      job.stop(step);
    }
  };
  steps(0, false);
  steps(3, true);
  steps(6, true);  // follow the one reported already
  steps(20, true);
  job.stop(op);
  job.stop(coll);
  const std::vector<st_box_event> reported = this->folder_.read().of_type(ST_BOX_PROXY_STEP);
  ASSERT_EQ(reported.size(), 2U);
  EXPECT_EQ(reported[0].u.proxy_step.step, 3);
  EXPECT_EQ(reported[1].u.proxy_step.step, 20);
  EXPECT_GE(reported[0].u.proxy_step.wait_ns[ST_BOX_WAIT_NETWORK], ST_BOX_LONG_WAIT_NS);
}

}  // namespace
}  // namespace stalltrace::plugin::testing
