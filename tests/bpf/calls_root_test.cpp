// SPDX-License-Identifier: Apache-2.0
// Every argument of every call, as the kernel side sees it, against a library whose calls are known.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <array>
#include <map>
#include <set>
#include <span>

#include "capture/decode/collective/unique_id.h"
#include "stacks/nccl/comm_layout.h"
#include "support.h"

namespace stalltrace::capture {
namespace {

using testing::Optional;
using testing::SizeIs;

class CallsRoot : public testing::Test {
 protected:
  void SetUp() override { ST_NEED_ROOT(); }
};

std::array<std::byte, ST_UNIQUE_ID_BYTES> known_id() {
  std::array<std::byte, ST_UNIQUE_ID_BYTES> id{};
  for (size_t i = 0; i < id.size(); ++i) {
    id[i] = static_cast<std::byte>(i + 1);
  }
  return id;
}

struct Expected {
  Operation op;
  int64_t count;
  int32_t datatype;
  std::optional<int32_t> reduce_op;
  std::optional<int32_t> root;
  std::optional<int32_t> peer;
  uint64_t stream;
  int64_t seq;
};

TEST_F(CallsRoot, EveryArgumentOfEveryCallArrives) {
  constexpr std::nullopt_t no = std::nullopt;
  const std::vector<Expected> expected{
      {Operation::kAllReduce, 101, 7, 0, no, no, 0x51, 0}, {Operation::kReduceScatter, 102, 7, 2, no, no, 0x52, 1},
      {Operation::kReduce, 103, 8, 3, 5, no, 0x53, 2},     {Operation::kAllGather, 104, 1, no, no, no, 0x54, 3},
      {Operation::kBroadcast, 105, 7, no, 2, no, 0x55, 4}, {Operation::kBroadcast, 106, 7, no, 4, no, 0x56, 5},
      {Operation::kAllToAll, 107, 7, no, no, no, 0x57, 6}, {Operation::kGather, 108, 7, no, 6, no, 0x58, 7},
      {Operation::kScatter, 109, 7, no, 7, no, 0x59, 8},   {Operation::kSend, 110, 7, no, no, 1, 0x5a, 0},
      {Operation::kRecv, 111, 7, no, no, 2, 0x5b, 0},
  };
  Trace trace;
  Job job;
  job.must("init 8 3");
  job.must("all_calls");
  trace.stop();

  std::vector<Collective> rows = trace.calls(job.pid());
  std::erase_if(rows, [](const Collective& row) { return !moves_data(row.op); });
  ASSERT_THAT(rows, SizeIs(expected.size()));  // nested and tail-called functions count once
  for (size_t i = 0; i < expected.size(); ++i) {
    const Collective& row = rows[i];
    SCOPED_TRACE(expected[i].count);
    EXPECT_EQ(row.op, expected[i].op);
    EXPECT_THAT(row.count, Optional(expected[i].count));
    EXPECT_THAT(row.datatype, Optional(expected[i].datatype));
    EXPECT_EQ(row.reduce_op, expected[i].reduce_op);
    EXPECT_EQ(row.root, expected[i].root);
    EXPECT_EQ(row.peer, expected[i].peer);
    EXPECT_EQ(row.stream, expected[i].stream);
    EXPECT_THAT(row.seq, Optional(expected[i].seq));
    EXPECT_EQ(row.comm_ptr, 0xc0de0100U);
    EXPECT_EQ(row.comm_id_hash, comm_id_hash(known_id()));
    EXPECT_THAT(row.rank, Optional(3));
    EXPECT_THAT(row.nranks, Optional(8));
    EXPECT_EQ(row.rank_source, RankSource::kInit);
    EXPECT_THAT(row.return_code, Optional(0));
    EXPECT_TRUE(row.launch_ns.value_or(0) > 0 && *row.launch_ns < 1'000'000'000);
    EXPECT_EQ(row.tid, job.pid());
    EXPECT_EQ(row.group_id, 0U);
    EXPECT_EQ(row.cgroup_id, trace.process(job.pid()).cgroup_id);
  }
}

TEST_F(CallsRoot, EachWayToMakeACommunicator) {
  Trace trace;
  Job job;
  job.must("init 8 3");
  job.must("init_config 16 5");
  job.must("init_scalable 32 7");
  job.must("split 4 9");
  job.must("init_all 3");
  EXPECT_EQ(job.ask("init_all 0"), 0);
  EXPECT_EQ(job.ask("init_fails 2 1"), 2);
  job.must("destroy");
  trace.stop();

  const auto inits = trace.calls(job.pid(), Operation::kCommInitRank);
  ASSERT_THAT(inits, SizeIs(4));
  const std::array<std::pair<int32_t, int32_t>, 4> sizes{{{8, 3}, {16, 5}, {32, 7}, {2, 1}}};
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_THAT(inits[i].nranks, Optional(sizes[i].first));
    EXPECT_THAT(inits[i].rank, Optional(sizes[i].second));
    EXPECT_EQ(inits[i].comm_id_hash, comm_id_hash(known_id()));
    EXPECT_EQ(inits[i].completion, Completion::kCall);
  }
  EXPECT_THAT(inits[3].return_code, Optional(2));
  for (const Collective& row : trace.calls(job.pid(), Operation::kCommInitAll)) {
    EXPECT_EQ(row.completion, Completion::kCall);
  }
  EXPECT_THAT(trace.calls(job.pid(), Operation::kCommInitAll), SizeIs(2));

  const auto comms = trace.communicators(job.pid());
  ASSERT_THAT(comms, SizeIs(7));
  EXPECT_EQ(comms[0].nccl_comm_hash, nccl_comm_hash(known_id()));
  EXPECT_EQ(comms[3].parent_hash, comm_id_hash(known_id()));
  EXPECT_THAT(comms[3].split_color, Optional(4));
  EXPECT_THAT(comms[3].split_key, Optional(9));
  EXPECT_EQ(comms[3].comm_id_hash, split_comm_hash(comm_id_hash(known_id()), 0, 4));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_THAT(comms[4 + i].rank, Optional(static_cast<int32_t>(i)));
    EXPECT_EQ(comms[4 + i].comm_ptr, 0xa110000U + 0x100 * i);
  }
  EXPECT_TRUE(comms[2].destroyed_ns);
  EXPECT_FALSE(comms[0].destroyed_ns);
}

TEST_F(CallsRoot, NcclsMemoryShowsWhichCommunicatorACallIsOn) {
  Trace trace;
  std::array<Job, 2> jobs;
  for (const size_t i : {0U, 1U}) {
    const stacks::CommLayout& layout = i == 0 ? stacks::comm_layouts().front() : stacks::comm_layouts().back();
    jobs[i].must(fmt::format("marked {} {}", layout.identity, layout.end));
    jobs[i].must("all_reduce 140");
    jobs[i].must(fmt::format("marked {} {}", layout.identity, layout.end + 8));  // of no version
    jobs[i].must("all_reduce 141");
  }
  trace.stop();

  for (Job& job : jobs) {
    const auto comms = trace.communicators(job.pid());
    ASSERT_THAT(comms, SizeIs(2));
    EXPECT_EQ(comms[0].nccl_comm_hash, 0xabcU);
    EXPECT_THAT(comms[0].rank, Optional(3));
    EXPECT_THAT(comms[0].nranks, Optional(8));
    EXPECT_EQ(comms[0].rank_source, RankSource::kMemory);
    EXPECT_EQ(comms[1].nccl_comm_hash, 0U);
    EXPECT_THAT(trace.call(job.pid(), 140).rank, Optional(3)) << "it is known before the call";
    EXPECT_EQ(trace.call(job.pid(), 141).rank, std::nullopt);
  }
}

TEST_F(CallsRoot, AGroupIsLaunchedByItsOutermostEnd) {
  Trace trace;
  Job job;
  job.must("init 2 0");
  job.must("grouped");
  job.must("all_reduce 122");
  trace.stop();

  const auto groups = trace.calls(job.pid(), Operation::kGroup);
  ASSERT_THAT(groups, SizeIs(1));
  const Collective send = trace.call(job.pid(), 120);
  const Collective recv = trace.call(job.pid(), 121);
  for (const Collective& row : {send, recv}) {
    EXPECT_EQ(row.group_id, groups[0].group_id);
    EXPECT_EQ(row.timestamp_ns, groups[0].timestamp_ns);
    EXPECT_EQ(row.launch_ns, groups[0].launch_ns);
    EXPECT_LT(row.called_ns, row.timestamp_ns);
  }
  EXPECT_NE(groups[0].group_id, 0U);
  EXPECT_LT(send.called_ns, recv.called_ns);
  EXPECT_EQ(trace.call(job.pid(), 122).group_id, 0U);
}

TEST_F(CallsRoot, ARefusedCallTakesNoSequenceNumber) {
  Trace trace;
  Job job;
  job.must("init 8 3");
  job.must("all_reduce 111");
  EXPECT_EQ(job.ask("refused 112"), 4);
  job.must("all_reduce 113");
  trace.stop();
  const Collective refused = trace.call(job.pid(), 112);
  EXPECT_THAT(refused.return_code, Optional(4));
  EXPECT_EQ(refused.completion, Completion::kCall);
  EXPECT_THAT(trace.call(job.pid(), 113).seq, Optional(1));
}

TEST_F(CallsRoot, ACallLeftByLongjmpStaysOpenAndTheNextIsSeen) {
  Trace trace;
  Job job;
  job.must("init 8 3");
  job.must("jump_out");
  job.must("all_reduce 115");
  job.must("all_calls");
  trace.stop();
  EXPECT_EQ(trace.call(job.pid(), 114).launch_ns, std::nullopt);
  EXPECT_EQ(trace.call(job.pid(), 114).completion, Completion::kOpen);
  EXPECT_THAT(trace.call(job.pid(), 115).return_code, Optional(0));
  EXPECT_THAT(trace.call(job.pid(), 109).return_code, Optional(0));
}

TEST_F(CallsRoot, ACallThatNeverReturnsIsOpenAlsoAfterTheProcessIsKilled) {
  Trace trace;
  Job job;
  job.must("init 8 3");
  job.send_command("never_returns 130");
  sleep_ms(400);
  job.signal(SIGKILL);
  job.wait();
  sleep_ms(200);
  trace.stop();
  const Collective row = trace.call(job.pid(), 130);
  EXPECT_EQ(row.completion, Completion::kOpen);
  EXPECT_EQ(row.duration_ns, std::nullopt);
  EXPECT_EQ(row.launch_ns, std::nullopt);
  EXPECT_THAT(row.rank, Optional(3));
  EXPECT_THAT(trace.process(job.pid()).exit_signal, Optional(SIGKILL));
  EXPECT_EQ(trace.process(job.pid()).exit_code, std::nullopt);
}

TEST_F(CallsRoot, WhereEachCallWasMade) {
  Trace trace;
  Job job;
  job.must("init 8 3");
  job.must("all_calls");
  job.must("all_calls");
  trace.stop();
  std::vector<Collective> rows = trace.calls(job.pid());
  std::erase_if(rows, [](const Collective& row) { return !moves_data(row.op); });
  ASSERT_THAT(rows, SizeIs(22));
  std::set<std::string> call_sites;
  for (const Collective& row : rows) {
    const std::string frames = trace.frames_of(row);
    call_sites.insert(frames);
    EXPECT_THAT(frames, testing::MatchesRegex(
                            "nccl[A-Za-z]+ \\(libstandin_nccl.so\\)\n[^\n]*\\+0x[0-9a-f]+ \\(standin_job\\)(\n.*)?"));
  }
  EXPECT_THAT(call_sites, SizeIs(11)) << "each call has a call site of its own, the same both times";
}

TEST_F(CallsRoot, CodeWithoutFramePointersCallsFromOneCallSite) {
  constexpr size_t kCalls = 300;  // more than the 256 call sites that are kept for a process
  Trace trace;
  Job job;
  job.must("init 8 3");
  job.must("no_frame_pointers " + std::to_string(kCalls));
  trace.stop();
  const std::vector<Collective> rows = trace.calls(job.pid(), Operation::kAllReduce);
  ASSERT_THAT(rows, SizeIs(kCalls));
  std::set<std::string> call_sites;
  for (const Collective& row : rows) {
    call_sites.insert(trace.frames_of(row));
  }
  EXPECT_THAT(call_sites, ElementsAre(testing::StartsWith("ncclAllReduce (libstandin_nccl.so)\n")));
}

TEST_F(CallsRoot, AnExitCode) {
  Trace trace;
  Job job;
  job.must("init 8 3");
  job.send_command("exit 3");
  job.wait();
  sleep_ms(200);
  trace.stop();
  EXPECT_THAT(trace.process(job.pid()).exit_code, Optional(3));
  EXPECT_EQ(trace.process(job.pid()).exit_signal, std::nullopt);
  EXPECT_TRUE(trace.process(job.pid()).exit_ns);
}

}  // namespace
}  // namespace stalltrace::capture
