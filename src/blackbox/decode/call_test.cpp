// SPDX-License-Identifier: Apache-2.0
// One row for each call, whichever of its events NCCL reports. A call whose end NCCL does not report is not an open
// call.
#include "blackbox/decode/call.h"

#include <gtest/gtest.h>

namespace stalltrace::blackbox {
namespace {

constexpr uint64_t kGroup = 7;
constexpr uint64_t kApi = 8;
constexpr uint64_t kTask = 9;
constexpr int32_t kOwnRank = 1;
constexpr st_box_communicator kCommunicator{.serial = 3, .hash = 0xabc, .rank = kOwnRank, .ranks = 2};

/// A file with the events of one call.
struct Call {
  EventTable table;

  static st_box_event event(uint64_t id, st_box_type type, uint64_t parent, uint64_t start_ns, uint64_t end_ns) {
    st_box_event event{.id = id, .parent = parent, .start_ns = start_ns, .end_ns = end_ns};
    event.communicator = kCommunicator.serial;
    event.tid = 4712;
    event.type = type;
    return event;
  }
  void group(uint64_t end_entered_ns, uint64_t end_ns) {
    st_box_event group = event(kGroup, ST_BOX_GROUP_API, 0, 1000, end_ns);
    group.u.api.end_entered_ns = end_entered_ns;
    table.add(group, end_ns == 0);
  }
  static st_box_event api(st_box_type type, st_box_operation operation, uint64_t ordinal) {
    st_box_event api = event(kApi, type, kGroup, 2000, 2500);
    api.u.api.operation = operation;
    api.u.api.count = 100;
    api.u.api.datatype = 7;
    api.u.api.root = 1;
    api.u.api.stream = 0x50;
    api.u.api.call_ordinal = ordinal;
    return api;
  }
  void broadcast(uint8_t flags = 0, uint64_t ordinal = 6) {
    st_box_event call = api(ST_BOX_COLL_API, ST_BOX_OP_BROADCAST, ordinal);
    call.flags = flags;
    table.add(call, false);
  }
  static st_box_event task(st_box_type type, st_box_operation operation, int32_t root_or_peer) {
    st_box_event task = event(kTask, type, kApi, 4000, 0);
    task.rank = kOwnRank;
    task.u.coll.operation = operation;
    task.u.coll.root_or_peer = root_or_peer;
    task.u.coll.call_number = task.u.coll.sequence = 4;
    task.u.coll.count = 100;
    task.u.coll.datatype = 7;
    task.u.coll.enqueued_ns = 5000;
    return task;
  }
  [[nodiscard]] std::optional<ProfilerCall> row(uint64_t id) const {
    return decode_call(*table.find(id), table, &kCommunicator, {.node_id = 1, .pid = 4711});
  }
};

void expect_unobserved(const std::optional<ProfilerCall>& call) {
  ASSERT_TRUE(call);
  EXPECT_EQ(call->row.completion, Completion::kUnobserved);
  EXPECT_EQ(call->row.duration_ns, std::nullopt);
}

TEST(DecodeCall, OneOfWhichNothingElseIsReportedIsLaunched) {
  Call call;
  call.group(3000, 3600);
  call.broadcast();
  const auto found = call.row(kApi);
  expect_unobserved(found);
  EXPECT_EQ(found->id, kApi);
  EXPECT_EQ(found->api, kApi);
  EXPECT_EQ(found->group, kGroup);
  const Collective& row = found->row;
  EXPECT_EQ(row.op, Operation::kBroadcast);
  EXPECT_EQ(row.timestamp_ns, 3000);
  EXPECT_EQ(row.called_ns, 2000);
  EXPECT_EQ(row.launch_ns, 600);
  EXPECT_EQ(row.seq, 5);
  EXPECT_EQ(row.root, 1);
  EXPECT_EQ(row.count, 100);
  EXPECT_EQ(row.bytes, 400);
  EXPECT_EQ(row.stream, 0x50);
  EXPECT_EQ(row.rank, kOwnRank);
  EXPECT_EQ(row.comm_ptr, 3);
}

TEST(DecodeCall, ThatHasNotReturnedFromItsGroupIsOpen) {
  Call call;
  call.group(3000, 0);
  call.broadcast();
  const auto found = call.row(kApi);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->row.completion, Completion::kOpen);
  EXPECT_EQ(found->row.launch_ns, std::nullopt);
}

TEST(DecodeCall, IsNoneWhileItIsOnlyNotedInAGroup) {
  Call call;
  call.group(0, 0);
  call.broadcast();
  EXPECT_FALSE(call.row(kApi));
}

TEST(DecodeCall, OneThatIsCapturedIntoAGraphIsNotRun) {
  Call call;
  call.group(3000, 3600);
  call.broadcast(ST_BOX_GRAPH_CAPTURED);
  EXPECT_FALSE(call.row(kApi));
  call.table.add(Call::task(ST_BOX_COLL, ST_BOX_OP_BROADCAST, 1), false);
  const auto launched = call.row(kTask);
  ASSERT_TRUE(launched);
  EXPECT_TRUE(launched->by_graph);
  EXPECT_EQ(launched->row.timestamp_ns, 4000) << "it does not begin with the captured call";
}

TEST(DecodeCall, OfAnEarlierPluginHasNoNumberAndNoRow) {
  Call call;
  call.group(3000, 3600);
  call.broadcast(0, 0);
  EXPECT_FALSE(call.row(kApi)) << "it would replace another";
}

TEST(DecodeCall, IsTheRowOfWhatItLaunched) {
  for (const auto& [type, operation] : {std::pair(ST_BOX_COLL, ST_BOX_OP_ALL_REDUCE), {ST_BOX_P2P, ST_BOX_OP_SEND}}) {
    Call call;
    call.group(3000, 6000);
    call.table.add(Call::api(type == ST_BOX_COLL ? ST_BOX_COLL_API : ST_BOX_P2P_API, operation, 5), false);
    const st_box_event task = Call::task(type, operation, 0);
    call.table.add(task, true);
    EXPECT_FALSE(call.row(kApi));
    const auto found = call.row(kTask);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->api, kApi);
    EXPECT_EQ(found->row.timestamp_ns, 3000);

    Call noted;
    noted.group(3000, 6000);
    noted.table.add(Call::api(ST_BOX_COLL_API, ST_BOX_OP_ALL_REDUCE, 5), false);
    noted.table.note_launch(task);
    EXPECT_FALSE(noted.row(kApi));
    noted.table.erase(kApi);
    EXPECT_FALSE(noted.table.has_launched(kApi));
  }
}

TEST(DecodeCall, AnOwnTransferWaitsForNoRank) {
  for (const uint8_t flags : {uint8_t{0}, uint8_t{ST_BOX_KERNEL_EXPECTED}}) {  // earlier plugins expected a kernel
    for (const bool open : {false, true}) {
      Call call;
      st_box_event own = Call::task(ST_BOX_P2P, ST_BOX_OP_SEND, kOwnRank);
      own.flags = flags;
      call.table.add(own, open);
      const auto found = call.row(kTask);
      expect_unobserved(found);
      EXPECT_EQ(found->row.launch_ns, 1000);
      EXPECT_EQ(found->row.peer, kOwnRank);
    }
  }
  Call call;
  st_box_event own = Call::task(ST_BOX_P2P, ST_BOX_OP_SEND, kOwnRank);
  own.u.coll.enqueued_ns = 0;
  call.table.add(own, true);
  EXPECT_EQ(call.row(kTask)->row.completion, Completion::kOpen) << "it is still being launched";
}

TEST(DecodeCall, LeftBehindByItsCommunicatorIsOpenOnlyIfItWas) {
  for (const uint8_t expected : {uint8_t{0}, uint8_t{ST_BOX_KERNEL_EXPECTED}}) {
    Call call;
    st_box_event coll = Call::task(ST_BOX_COLL, ST_BOX_OP_ALL_REDUCE, 0);
    coll.flags = ST_BOX_UNFINISHED | expected;
    call.table.add(coll, false);
    EXPECT_EQ(call.row(kTask)->row.completion, expected == 0 ? Completion::kUnobserved : Completion::kOpen);
  }
}

TEST(DecodeCall, ATransferWithAnotherIsOpenUntilItsKernelHasRun) {
  Call call;
  st_box_event send = Call::task(ST_BOX_P2P, ST_BOX_OP_SEND, 0);
  send.flags = ST_BOX_KERNEL_EXPECTED;
  call.table.add(send, true);
  EXPECT_EQ(call.row(kTask)->row.completion, Completion::kOpen);
}

TEST(DecodeCall, WithoutKernelsOnlyAnOpenPartIsOpen) {
  Call call;
  st_box_event coll = Call::task(ST_BOX_COLL, ST_BOX_OP_ALL_REDUCE, 0);
  call.table.add(coll, true);
  expect_unobserved(call.row(kTask));
  coll.u.coll.ops_started = 1;
  call.table.add(coll, true);
  EXPECT_EQ(call.row(kTask)->row.completion, Completion::kOpen);
}

TEST(DecodeCall, ByTheCopyEnginesIsLaunchedToo) {
  Call call;
  call.group(3000, 9000);
  call.table.add(Call::api(ST_BOX_COLL_API, ST_BOX_OP_ALL_GATHER, 6), false);
  st_box_event copy = Call::event(kTask, ST_BOX_CE_COLL, kApi, 4000, 4700);
  copy.u.ce.operation = ST_BOX_OP_ALL_GATHER;
  copy.u.ce.count = 400;
  copy.u.ce.call_ordinal = 6;
  call.table.add(copy, false);
  EXPECT_FALSE(call.row(kApi));
  const auto found = call.row(kTask);
  expect_unobserved(found);
  EXPECT_EQ(found->row.op, Operation::kAllGather);
  EXPECT_EQ(found->row.launch_ns, 1700);
  EXPECT_EQ(found->row.seq, 5);
  EXPECT_EQ(found->row.count, 100) << "the caller's";
  copy.u.ce.call_ordinal = 0;
  call.table.add(copy, false);
  EXPECT_FALSE(call.row(kTask)) << "captured, or of an earlier plugin";
}

/// A collective of 4000 to 9000 ns whose kernel began at 6000 on the host's clock and took 1500 ns on the GPU's.
st_box_event with_kernel() {
  st_box_event task = Call::task(ST_BOX_COLL, ST_BOX_OP_ALL_REDUCE, 0);
  task.end_ns = 9000;
  task.u.coll.kernel_start_ns = 6000;
  task.u.coll.gpu_start_ns = 1'000'000;
  task.u.coll.gpu_stop_ns = 1'001'500;
  task.u.coll.kernels_started = task.u.coll.kernels_ended = 2;
  return task;
}

TEST(DecodeCall, ItsKernelBeginsOnTheHostsClockAndLastsByTheGpus) {
  Call call;
  call.table.add(with_kernel(), false);
  const Collective row = call.row(kTask)->row;
  EXPECT_EQ(row.kernel_start_ns, 6000);
  EXPECT_EQ(row.kernel_end_ns, 7500);
}

TEST(DecodeCall, AKernelEndsWithItsCallAtTheLatest) {
  Call call;
  st_box_event task = with_kernel();
  task.u.coll.gpu_stop_ns = 2'000'000;
  call.table.add(task, false);
  EXPECT_EQ(call.row(kTask)->row.kernel_end_ns, 9000);
  task.u.coll.gpu_stop_ns = ~uint64_t{0};
  call.table.add(task, false);
  EXPECT_EQ(call.row(kTask)->row.kernel_end_ns, std::nullopt);
}

/// Its process was stopped, or had no CPU, after the launch.
TEST(DecodeCall, AKernelWhoseStartWasSeenLateBeganAsTheGpuSays) {
  Call call;
  st_box_event task = with_kernel();
  task.u.coll.kernel_start_ns = 8900;
  task.u.coll.gpu_stop_ns = task.u.coll.gpu_start_ns + 4000;
  call.table.add(task, false);
  EXPECT_EQ(call.row(kTask)->row.kernel_start_ns, 5000);
  EXPECT_EQ(call.row(kTask)->row.kernel_end_ns, 9000);
  task.u.coll.gpu_stop_ns = task.u.coll.gpu_start_ns + 6000;
  call.table.add(task, false);
  EXPECT_EQ(call.row(kTask)->row.kernel_start_ns, 4000) << "its launch";
}

TEST(DecodeCall, AKernelThatRunsHasAStartAndNoEnd) {
  Call call;
  st_box_event task = with_kernel();
  task.end_ns = 0;
  task.u.coll.kernels_ended = 1;
  call.table.add(task, true);
  EXPECT_EQ(call.row(kTask)->row.kernel_start_ns, 6000);
  EXPECT_EQ(call.row(kTask)->row.kernel_end_ns, std::nullopt);
}

TEST(DecodeCall, AKernelThatNcclReportsTooEarlyShowsNothing) {
  Call call;
  st_box_event task = with_kernel();
  task.flags |= ST_BOX_KERNELS_UNTRUE;
  call.table.add(task, false);
  task.flags = 0;
  task.u.coll.kernel_start_ns = 3999;
  EXPECT_EQ(call.row(kTask)->row.kernel_start_ns, std::nullopt);
  call.table.add(task, false);
  EXPECT_EQ(call.row(kTask)->row.kernel_start_ns, std::nullopt) << "before its call";
}

TEST(DecodeCall, ASizeThatNothingHasIsUnknown) {
  Call call;
  st_box_event gather = Call::task(ST_BOX_COLL, ST_BOX_OP_ALL_GATHER, 0);
  gather.u.coll.count = (1ULL << 50) - 1;
  gather.u.coll.datatype = 8;
  call.table.add(gather, false);
  st_box_communicator large = kCommunicator;
  large.ranks = (1 << 24) - 1;
  const auto row = decode_call(*call.table.find(kTask), call.table, &large, {.node_id = 1, .pid = 4711});
  ASSERT_TRUE(row);
  EXPECT_EQ(row->row.bytes, 0);
}

TEST(DecodeCall, ImpossibleNumbersAreLeftOut) {
  Call call;
  call.group(3000, 1ULL << 62);
  call.broadcast(0, 1ULL << 60);
  EXPECT_FALSE(call.row(kApi));
  st_box_event api = Call::api(ST_BOX_COLL_API, ST_BOX_OP_BROADCAST, 1);
  call.table.add(api, false);
  EXPECT_EQ(call.row(kApi)->row.launch_ns, std::nullopt);
  api.u.api.operation = 200;
  call.table.add(api, false);
  EXPECT_FALSE(call.row(kApi));
  api.u.api.operation = ST_BOX_OP_PUT_SIGNAL;
  call.table.add(api, false);
  EXPECT_FALSE(call.row(kApi));
}

}  // namespace
}  // namespace stalltrace::blackbox
