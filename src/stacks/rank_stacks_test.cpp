// SPDX-License-Identifier: Apache-2.0
#include "stacks/rank_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <nlohmann/json.hpp>

#include "stacks/output/describe.h"
#include "stacks/output/stacks_text.h"
#include "tests/support/golden_text.h"

namespace stalltrace::stacks {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

ThreadStack thread_at(std::vector<PythonFrame> frames) {
  ThreadStack thread{.tid = 1, .name = "python3", .state = 'S'};
  thread.python = PythonThread{.tid = 1};
  thread.python->frames = std::move(frames);
  return thread;
}

constexpr auto kTorch = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py";

std::vector<PythonFrame> in_all_reduce() {
  return {{"all_reduce", kTorch, 1322},
          {"train.<locals>.step", "/home/u/train.py", 88},
          {"<module>", "/home/u/train.py", 120}};
}
std::vector<PythonFrame> in_loader() {
  return {{"load_batch", "/home/u/data.py", 212}, {"<module>", "/home/u/train.py", 120}};
}

RankStacks rank_at(int32_t rank, std::vector<PythonFrame> frames, std::string job = "j") {
  ProcessStacks stacks{.pid = 100 + rank, .command = "python3 train.py"};
  stacks.python = PythonProgram{.minor = 11, .version = "3.11.2"};
  stacks.threads.push_back(thread_at(std::move(frames)));
  stacks.threads.front().tid = stacks.pid;
  return {.pid = 100 + rank, .rank = rank, .job = std::move(job), .stacks = std::move(stacks), .children = {}};
}

TEST(LocationOf, TheProgramsOwnLineAndWhatItCalled) {
  EXPECT_EQ(location_of(thread_at(in_all_reduce())), "in all_reduce at train.py:88");
  EXPECT_EQ(location_of(thread_at(in_loader())), "in load_batch at data.py:212");
  EXPECT_EQ(location_of(thread_at({{"main.<locals>.b", "job.py", std::nullopt}})), "in b at job.py");
  EXPECT_EQ(location_of(thread_at({{"all_reduce", kTorch, 1},
                                   {"_log.<locals>.wrapper", "/x/site-packages/torch/l.py", 7},
                                   {"step", "train.py", 8}})),
            "in all_reduce at train.py:8")
      << "a decorator is not what was called";
  golden::expect_text(
      location_of(thread_at({{"poll", "/usr/lib/python3.11/selectors.py", 4},
                             {"main", "/usr/bin/../lib/python3.11/x.py", 9}})));  // nothing of its own: the innermost
}

TEST(LocationOf, WithoutPythonWhatItWaitsFor) {
  ThreadStack thread{.tid = 1, .name = "rank", .state = 'S'};
  thread.blocked = Blocked{.call = SystemCall{.number = SYS_futex}};
  EXPECT_EQ(location_of(thread), "in futex") << "the C library alone says no more than the wait";
  EXPECT_EQ(call_site_of(thread), std::nullopt);
  EXPECT_EQ(location_of(thread_at({{"f\x1b[2J", "a\nb.py", 1}})), "in f?[2J at a?b.py:1");
}

NativeStack native_stack(std::vector<std::pair<std::string, std::string>> frames) {
  NativeStack stack{.frames = {}, .whole = true, .problem = ""};
  for (auto& [function, file] : frames) {
    stack.frames.push_back({std::move(function), std::move(file), std::nullopt, true});
  }
  return stack;
}

constexpr auto kLibc = "/usr/lib/x86_64-linux-gnu/libc.so.6";

TEST(LocationOf, WithoutPythonTheNativeCall) {
  ThreadStack thread{.tid = 1, .name = "rank", .state = 'S'};
  thread.blocked = Blocked{.call = SystemCall{.number = SYS_futex}};
  thread.native = native_stack({{"clock_nanosleep", kLibc}, {"usleep", kLibc}, {"step(int)", "/home/u/train"}});
  golden::expect_text(location_of(thread));
  thread.native = native_stack({{"step(int)", "/home/u/train"}});
  EXPECT_EQ(location_of(thread), "in step(int) (train)");
  thread.native = native_stack({{"futex_wait", kLibc}, {"c10d::runLoop()", "/usr/lib/libtorch_cpu.so"}});
  golden::expect_text(location_of(thread));
  thread.native = native_stack({{"futex_wait", kLibc}});
  EXPECT_EQ(location_of(thread), "in futex") << "the C library alone says no more than the wait";
  ThreadStack python = thread_at(in_loader());
  python.native = native_stack({{"read", kLibc}, {"step(int)", "/home/u/train"}});
  EXPECT_EQ(location_of(python), "in load_batch at data.py:212");
}

TEST(NativeCallOf, TheCallerWhatItCalledAndWhetherThatOnlyWaits) {
  ThreadStack thread{.tid = 1, .name = "rank", .state = 'S'};
  EXPECT_FALSE(native_call_of(thread));
  thread.native = native_stack({{"usleep", kLibc}, {"step(int)", "/home/u/train"}});
  auto call = native_call_of(thread);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->caller, "step(int) (train)");
  EXPECT_EQ(call->called, "usleep");
  EXPECT_FALSE(call->only_waits) << "the program chose this call";
  thread.native = native_stack({{"step(int)", "/home/u/train"}});
  call = native_call_of(thread);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->called, "");
  EXPECT_FALSE(call->only_waits);
  thread.native = native_stack({{"futex_wait", kLibc}, {"c10d::runLoop()", "/usr/lib/libtorch_cpu.so"}});
  call = native_call_of(thread);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->caller, "c10d::runLoop() (libtorch_cpu.so)");
  EXPECT_TRUE(call->only_waits);
  thread.native = native_stack({{"called by ", "/home/u/train"}});
  golden::expect_text(location_of(thread));  // a function's name chooses no form
  thread.native = native_stack({{"futex_wait", kLibc}});
  EXPECT_FALSE(native_call_of(thread));
  thread.native = native_stack({});
  EXPECT_FALSE(native_call_of(thread));
}

TEST(StacksText, NativeFramesBesidePythonOnes) {
  RankStacks rank = rank_at(0, in_loader());
  ThreadStack& main = rank.stacks->threads.front();
  main.native = native_stack(
      {{"read", kLibc}, {"os_read", "/usr/bin/python3.11"}, {"_PyEval_EvalFrameDefault", "/usr/bin/python3.11"}});
  ThreadStack other{.tid = 300, .name = "pt_gloo", .state = 'S'};
  other.blocked = Blocked{.call = SystemCall{.number = SYS_futex}};
  other.native = native_stack({{"futex_wait", kLibc}, {"c10d::runLoop()", "/usr/lib/libtorch_cpu.so"}});
  rank.stacks->threads.push_back(other);
  const std::string text = stacks_text(std::vector<RankStacks>{rank});
  golden::expect_text(text);
  const auto json = stacks_json(std::vector<RankStacks>{rank});
  const auto& native = json["processes"][0]["threads"][0]["native"];
  EXPECT_EQ(native["frames"].size(), 3U);
  EXPECT_EQ(native["frames"][1]["function"], "os_read");
  EXPECT_TRUE(native["whole"].get<bool>());
}

TEST(CallSiteOf, NamesTheCalledFunctionAndTheProgramsOwnLine) {
  EXPECT_EQ(call_site_of(thread_at(in_all_reduce())), (CallSite{"all_reduce", "train.py:88"}));
  EXPECT_EQ(call_site_of(thread_at({{"main.<locals>.b", "job.py", std::nullopt}})), (CallSite{"b", "job.py"}));
  EXPECT_EQ(call_site_of(thread_at({{"f\x1b[2J", "a\nb.py", 1}})), (CallSite{"f?[2J", "a?b.py:1"}));
  EXPECT_EQ(call_site_of(thread_at({})), std::nullopt);
}

TEST(FoldedLine, TheMostRanksFirst) {
  std::vector<RankStacks> ranks;
  for (int32_t rank = 0; rank < 8; ++rank) {
    ranks.push_back(rank_at(rank, rank == 3 ? in_loader() : in_all_reduce()));
  }
  const auto jobs = fold_jobs(ranks);
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_EQ(folded_line(jobs[0].locations),
            "7 ranks in all_reduce at train.py:88, rank 3 in load_batch at data.py:212");
  ranks.resize(4);
  EXPECT_EQ(folded_line(fold_jobs(ranks)[0].locations),
            "ranks 0, 1, 2 in all_reduce at train.py:88, rank 3 in load_batch at data.py:212");
  ranks.push_back(rank_at(4, in_loader(), "another"));
  ranks.push_back({.pid = 7, .rank = 5, .job = "j", .stacks = fail("gone"), .children = {}});
  ranks.push_back({.pid = 8, .rank = std::nullopt, .job = "j", .stacks = fail("gone"), .children = {}});
  ASSERT_THAT(fold_jobs(ranks), SizeIs(1)) << "a rank alone is no fold";
  golden::expect_text(folded_line(fold_jobs(ranks)[0].locations));
}

TEST(StacksText, EveryProcessWithItsThreadsAndChildren) {
  RankStacks rank =
      rank_at(0, {{"deep", "d.py", 3}, {"deep", "d.py", 3}, {"deep", "d.py", 3}, {"<module>", "d.py", 5}});
  ThreadStack& main = rank.stacks->threads.front();
  main.blocked = Blocked{.call = SystemCall{.number = SYS_read}};
  Descriptor pipe{.number = 5, .kind = DescriptorKind::kPipe, .link = "pipe:[9]", .peers_known = true};
  main.blocked->descriptors.push_back(pipe);
  main.python->holds_gil = true;
  ThreadStack other{.tid = 300, .name = "pt_gloo", .state = 'S'};
  other.blocked = Blocked{.call = SystemCall{.number = SYS_futex}};
  rank.stacks->threads.push_back(other);
  rank.stacks->threads.push_back(other);
  RankStacks child{
      .pid = 500, .rank = std::nullopt, .job = "", .stacks = fail("process 500 ended", "try again"), .children = {}};
  rank.children.push_back(child);
  const std::vector<RankStacks> ranks{rank};
  golden::expect_text(stacks_text(ranks));
}

TEST(StacksText, WhatIsNotCertainIsReported) {
  RankStacks rank = rank_at(0, in_loader());
  PythonThread& python = *rank.stacks->threads.front().python;
  python.changing = 1;
  python.left_out = 7;
  python.left_out_at = 1;
  rank.stacks->notes.push_back("not everything was read");
  const std::string text = stacks_text({{rank}});
  golden::expect_text(text);
}

TEST(StacksText, NothingOfAHostileProcessReachesTheTerminal) {
  RankStacks rank = rank_at(0, {{"f\x1b]0;x\a", "\x1b[31m.py", 1}});
  rank.stacks->command = "python3 \x1b[2J\n" + std::string(500, 'x');
  rank.stacks->threads.front().name =
      "\x9b"
      "1m";
  rank.job = "\x1b[1m";
  rank.stacks->threads.front().blocked = Blocked{.call = SystemCall{.number = SYS_openat}, .path = "/tmp/\x1b[5m"};
  const std::string text = stacks_text({{rank, rank}});
  for (const char byte : text) {
    EXPECT_TRUE(byte == '\n' || static_cast<unsigned char>(byte) >= 0x20) << static_cast<int>(byte);
  }
  EXPECT_LT(text.size(), 1500U);
}

TEST(StacksJson, HasWhatTheTextHas) {
  RankStacks rank = rank_at(0, in_all_reduce());
  rank.children.push_back(
      {.pid = 9, .rank = std::nullopt, .job = "", .stacks = fail("gone", "try again"), .children = {}});
  const auto json = stacks_json({{rank, rank_at(1, in_loader())}});
  EXPECT_EQ(json["jobs"][0]["line"], "rank 0 in all_reduce at train.py:88, rank 1 in load_batch at data.py:212");
  EXPECT_EQ(json["processes"][0]["python"], "3.11.2");
  EXPECT_EQ(json["processes"][0]["location"], "in all_reduce at train.py:88");
  EXPECT_EQ(json["processes"][0]["threads"][0]["python"]["frames"][1]["line"], 88);
  EXPECT_TRUE(json["processes"][0]["threads"][0]["python"]["holds_gil"].is_null());
  EXPECT_EQ(json["processes"][0]["children"][0]["error"]["remedy"], "try again");
}

TEST(DescribeWait, StatesWithoutASystemCall) {
  ThreadStack thread{.tid = 1, .name = "x", .state = 'R'};
  EXPECT_EQ(describe_wait(thread), "running");
  thread.state = 'T';
  EXPECT_EQ(describe_wait(thread), "stopped by a signal");
  thread.state = 'D';
  thread.blocked = Blocked{.wchan = "folio_wait_bit_common"};
  golden::expect_text(describe_wait(thread));
  thread.blocked->call = SystemCall{.number = SYS_futex};
  thread.blocked->for_gil = true;
  golden::expect_text(describe_wait(thread));
}

TEST(DescribeActivity, InWordsForASentence) {
  ThreadStack thread{.tid = 1, .name = "x", .state = 'S'};
  const auto waiting = [&](int64_t call, std::vector<Descriptor> descriptors = {}) {
    thread.blocked = Blocked{.call = SystemCall{.number = call}, .descriptors = std::move(descriptors)};
    return describe_activity(thread);
  };
  const Descriptor file{.number = 3, .kind = DescriptorKind::kFile, .link = "/data/x\x1b[5m"};
  const Descriptor fifo{.number = 4, .kind = DescriptorKind::kPipe, .link = "/data/in"};
  const Descriptor pipe{.number = 5, .kind = DescriptorKind::kPipe, .link = "pipe:[9]", .peers = {{7, "tee"}}};
  const Descriptor tcp{
      .number = 6, .kind = DescriptorKind::kTcp, .local = "10.0.0.1:4", .remote = "10.0.0.2:5", .state = "ESTABLISHED"};
  EXPECT_EQ(waiting(SYS_read, {file}), "reading /data/x?[5m");
  EXPECT_EQ(waiting(SYS_read, {fifo}), "reading FIFO /data/in");
  EXPECT_EQ(waiting(SYS_read), "in read");
  golden::expect_text(waiting(SYS_write, {pipe}));
  EXPECT_EQ(waiting(SYS_recvfrom, {tcp}), "reading TCP 10.0.0.1:4 -> 10.0.0.2:5 (ESTABLISHED)");
  golden::expect_text(waiting(SYS_ppoll, {pipe, fifo, file, tcp}));
  golden::expect_text(waiting(SYS_futex));
  EXPECT_EQ(waiting(SYS_clock_nanosleep), "sleeping (clock_nanosleep)");
  EXPECT_EQ(waiting(SYS_wait4), "waiting for a child process (wait4)");
  golden::expect_text(waiting(999));
  thread.blocked->for_gil = true;
  golden::expect_text(describe_activity(thread));
  thread.state = 'T';
  EXPECT_EQ(describe_activity(thread), "stopped by a signal");
  EXPECT_EQ(describe_activity(ThreadStack{.state = 'R'}), "running");
}

}  // namespace
}  // namespace stalltrace::stacks
