// SPDX-License-Identifier: Apache-2.0
#include "import/nccl_log/log_text.h"

#include <gtest/gtest.h>

#include <chrono>

#include "import/lines.h"
#include "import/testing/evidence_files.h"
#include "model/parse/log_time.h"

namespace stalltrace::import {
namespace {

constexpr std::string_view kCall =
    "AllReduce: opCount 1e sendbuff 0x7f00 recvbuff 0x7f01 count 7382228 datatype 7 op 0 root 0 comm 0x78cfda045840 "
    "[nranks=128] stream 0x78d07125e5e0";

TEST(LogText, ReadsWhoWroteALineBehindEachPrefix) {
  for (const std::string_view prefix :
       {"", "[1,3]<stdout>:", "node1: ", "3: ", "[rank3]:", "2026-05-05T10:00:00.123456789Z ", "[2026-05-05 10:00:00] ",
        "(Worker pid=615, ip=10.72.7.6) ", "May  5 10:00:00 host app[12]: ", "2026-05-05T10:00:00Z stdout F "}) {
    SCOPED_TRACE(prefix);
    const std::string line = std::string(prefix) + "gpu-7.x:615:18953 [2] NCCL INFO " + std::string(kCall);
    const LogText text = read_log_text(line);
    EXPECT_EQ(text.level, LogText::Level::kInfo);
    EXPECT_EQ(text.host, "gpu-7.x");
    EXPECT_EQ(text.pid, 615);
    EXPECT_EQ(text.tid, 18953);
    EXPECT_EQ(text.device, 2);
    EXPECT_EQ(text.prefix, prefix);
    EXPECT_EQ(text.message, kCall);
    EXPECT_FALSE(text.damaged);
  }
}

TEST(LogText, ReadsWarningsTracesAndVersions) {
  const LogText warning = read_log_text("node0:77:79 [0] misc/socket.cc:484 NCCL WARN socketPollConnect: no");
  EXPECT_EQ(warning.level, LogText::Level::kWarn);
  EXPECT_EQ(warning.host, "node0");
  EXPECT_EQ(warning.message, "socketPollConnect: no");
  const LogText trace = read_log_text("node0:77:79 [1] 12.345678 ncclInit:12 NCCL TRACE hello");
  EXPECT_EQ(trace.level, LogText::Level::kTrace);
  EXPECT_EQ(trace.pid, 77);
  EXPECT_EQ(read_log_text("NCCL version 2.21.5+cuda12.4").level, LogText::Level::kVersion);
  EXPECT_EQ(read_log_text("NCCL error: invalid usage, NCCL version 2.22.3").level, LogText::Level::kNone);
  EXPECT_EQ(read_log_text("epoch 3 loss 0.5").level, LogText::Level::kNone);
}

TEST(LogText, MixedUpLinesAreDamaged) {
  EXPECT_TRUE(read_log_text("a:1:2 [2] NCCL INFO b:3:4 [7] NCCL INFO Broadcast: opCount 0").damaged);
  EXPECT_TRUE(read_log_text("Broadcast: opCount 1 sendbuff 0x7f58 comm 0x7f58 [nranks=8]").damaged);
  EXPECT_TRUE(read_log_text("[2] NCCL INFO AllReduce: opCount 1").damaged);
  EXPECT_TRUE(read_log_text("a:1:2 [2] NCCL INFO ").damaged);
}

TEST(LogText, BracketsTakeNoTime) {
  std::string markers;
  for (int i = 0; i < 2400; ++i) {
    markers += "NCCL INFO ";
  }
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(read_log_text(std::string(40'000, '[') + markers).host.empty());
    EXPECT_TRUE(read_log_text(std::string(40'000, ']') + markers).host.empty());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));  // 200 times what took a minute
  const std::string far = std::string(2000, '[') + " node0:1:2 [3] NCCL INFO x";
  const LogText text = read_log_text(far);
  EXPECT_EQ(text.host, "node0");
  EXPECT_EQ(text.device, 3);
  EXPECT_EQ(text.prefix, std::string(2000, '[') + " ");
}

TEST(LogText, ReadsCalls) {
  const Statement statement = read_statement(kCall);
  const auto* call = std::get_if<BeganCall>(&statement);
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->op, Operation::kAllReduce);
  EXPECT_EQ(call->op_count, 0x1eU);
  EXPECT_EQ(call->count, 7382228);
  EXPECT_EQ(call->datatype, 7);
  EXPECT_EQ(call->reduce_op, 0);
  EXPECT_EQ(call->comm, 0x78cfda045840U);
  EXPECT_EQ(call->nranks, 128);
  EXPECT_EQ(call->stream, 0x78d07125e5e0U);
}

TEST(LogText, ACallThatIsCutAnywhereIsBroken) {
  const size_t whole = kCall.find(" stream");
  for (size_t length = 2; length < whole; ++length) {
    const Statement statement = read_statement(kCall.substr(0, length));
    EXPECT_TRUE(std::holds_alternative<BrokenLine>(statement)) << kCall.substr(0, length);
  }
}

TEST(LogText, ReadsSetUps) {
  const auto read = [](std::string_view message) {
    const Statement statement = read_statement(message);
    const auto* line = std::get_if<CommLine>(&statement);
    return line == nullptr ? CommLine{.rank = -1} : *line;
  };
  const CommLine old = read("comm 0x7f0 rank 3 nranks 8 cudaDev 3 busId 1b000 - Init COMPLETE");
  EXPECT_EQ(old.rank, 3);
  EXPECT_EQ(old.comm_id, 0U);
  const CommLine newer = read(
      "[Rank 5] ncclCommInitRankConfig comm 0x7f0 rank 5 nranks 8 cudaDev 5 nvmlDev 5 busId a1000 commId "
      "0x9f1c2b3a4d5e6f70 - Init START");
  EXPECT_EQ(newer.what, CommLine::What::kInitStart);
  EXPECT_EQ(newer.comm_id, 0x9f1c2b3a4d5e6f70U);
  const CommLine split = read(
      "ncclCommSplit comm 0x7f1 rank 1 nranks 2 cudaDev 5 nvmlDev 5 busId a1000 parent 0x7f0 splitCount 2 color 7 key "
      "1- Init START");
  EXPECT_EQ(split.parent, 0x7f0U);
  EXPECT_EQ(split.split_count, 2);
  EXPECT_EQ(split.color, 7);
  EXPECT_EQ(split.key, 1);
  EXPECT_EQ(read("comm 0x7f0 rank 3 nranks 8 cudaDev 3 busId 1b000 - Destroy COMPLETE").what, CommLine::What::kDestroy);
  EXPECT_EQ(read("comm 0x7f0 rank 9 nranks 8 cudaDev 3 busId 1b000 - Init COMPLETE").rank, -1);  // 9 of 8
}

TEST(LogText, NamesThatWereRemoved) {
  const LogText removed = read_log_text("x <node>:103:203 [1] proxy.cc:7 NCCL WARN late");
  EXPECT_EQ(removed.host, "<node>");
  EXPECT_EQ(removed.pid, 103);
  EXPECT_FALSE(removed.damaged);
  EXPECT_EQ(read_log_text("NODE :103:203 [1] NCCL INFO late").host, "NODE");
  EXPECT_EQ(read_log_text("[1,3]<stdout>:103:203 [1] NCCL INFO late").host, "");  // its host was cut off
  for (const std::string_view line :
       {"[3] include/shm.h:28 NCCL WARN full", "node7 [5] misc/socket.cc:46 NCCL WARN late",
        "[n][1:2][0][a.cc:3] NCCL WARN x"}) {
    const LogText nameless = read_log_text(line);
    EXPECT_TRUE(is_nameless_warning(nameless)) << line;
    EXPECT_FALSE(nameless.damaged) << line;
  }
  EXPECT_FALSE(is_nameless_warning(read_log_text("the words NCCL WARN in a text")));
  EXPECT_TRUE(read_log_text("[3] NCCL INFO include/shm.h:41 -> 2").damaged);
}

TEST(LogText, RanksOfLaunchersAndFiles) {
  EXPECT_EQ(rank_in_prefix("[1,3]<stdout>:"), 3);
  EXPECT_EQ(rank_in_prefix("12: "), 12);
  EXPECT_EQ(rank_in_prefix("[rank7]:[E505 10:10:03.4 ProcessGroupNCCL.cpp:607] "), 7);
  EXPECT_EQ(rank_in_prefix("2026-05-05T10:00:00Z "), std::nullopt);
  EXPECT_EQ(rank_in_prefix("node1: "), std::nullopt);
  EXPECT_EQ(rank_in_path("/logs/job4/nccl_rank7.log"), 7);
  EXPECT_EQ(rank_in_path("out/rank_12/stdout.txt"), 12);
  EXPECT_EQ(rank_in_path("/home/frank3/nccl.log"), std::nullopt);
  EXPECT_EQ(rank_in_path("nccl.log"), std::nullopt);
  EXPECT_EQ(rank_in_path("local_rank3.log"), std::nullopt);
  EXPECT_EQ(rank_in_path("node_rank_1/out.log"), std::nullopt);
  EXPECT_EQ(rank_in_path("node_rank1/local-rank3/rank_11.log"), 11);
}

TEST(LogText, RemovesEscapes) {
  std::string scratch;
  EXPECT_EQ(without_escapes("\x1b[36mnode0\x1b[0m ok", scratch), "node0 ok");
  EXPECT_EQ(without_escapes("plain", scratch), "plain");
  EXPECT_EQ(without_escapes("cut \x1b[3", scratch), "cut ");
}

TEST(LogTime, ReadsTheFormsOfLaunchers) {
  constexpr int64_t kTen = 1'777'975'200'000'000'000;  // 2026-05-05T10:00:00Z
  const TimeHint hint{kTen + 86'400'000'000'000 * 30, true};
  EXPECT_EQ(find_time("2026-05-05T10:00:00.5Z ", hint), kTen + 500'000'000);
  EXPECT_EQ(find_time("[2026-05-05 10:00:00] ", hint), kTen);
  EXPECT_EQ(find_time("2026/05/05 10:00:00,250 x", hint), kTen + 250'000'000);
  EXPECT_EQ(find_time("2026-05-05T12:00:00+02:00 stdout F ", hint), kTen);
  EXPECT_EQ(find_time("[rank0]:[E505 10:00:00.408271257 ProcessGroupNCCL.cpp:607]", hint), kTen + 408'271'257);
  EXPECT_EQ(find_time("I0505 10:00:00.1 ", hint), kTen + 100'000'000);
  EXPECT_EQ(find_time("May  5 10:00:00 host ", hint), kTen);
  EXPECT_EQ(find_time("10:00:00 ", {kTen + 5, false}), kTen);
  EXPECT_EQ(find_time("node0:1234:5678 ", hint), std::nullopt);
  EXPECT_EQ(find_time("25:00:00 ", hint), std::nullopt);
  EXPECT_EQ(find_time("2026-13-05T10:00:00Z", hint), std::nullopt);
  EXPECT_EQ(find_time(":", hint), std::nullopt);
  // A line is not later than the file: the year before.
  constexpr int64_t kDay = 86'400'000'000'000;
  EXPECT_EQ(find_time("[E505 10:00:00.0 x]", {kTen + kDay * 300, true}), kTen);
  // The same where the line before it, not the file, says which year is near.
  EXPECT_EQ(find_time("[E505 10:00:00.0 x]", {kTen + kDay * 206, false, kTen + kDay * 206}), kTen);
  EXPECT_EQ(find_time("[E505 10:00:00.0 x]", {kTen + kDay * 206, false}), kTen + kDay * 365);
  EXPECT_EQ(find_time("[E508 10:00:00.0 x]", {kTen, false, kTen + kDay * 3}), kTen + kDay * 3);
  EXPECT_EQ(find_time("[E508 10:00:00.0 x]", {kTen, false, kTen - kDay * 30}), kTen + kDay * 3) << "of another clock";
  constexpr int64_t kNewYear = kTen + kDay * 240 + int64_t{14 * 3600} * 1'000'000'000;
  EXPECT_EQ(find_time("[I101 00:00:00.0 x]", {kTen + kDay * 240, false, kTen + kDay * 250}), kNewYear);
}

TEST(Lines, OfAnyLength) {
  EvidenceFolder folder;
  const std::string longest(3 * LineReader::kLongest, 'x');
  const std::string huge(size_t{3} << 20, 'y');
  auto lines = LineReader::open(folder.write("a", "one\r\n\n" + longest + "\nfour\n" + huge + "\nlast"));
  ASSERT_TRUE(lines);
  std::vector<Line> read;
  std::vector<size_t> sizes;
  std::vector<std::string> texts;
  while (const auto line = lines->next()) {
    read.push_back(*line);
    sizes.push_back(line->text.size());
    texts.push_back(std::string(line->text.substr(0, 8)));
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"one", "", "xxxxxxxx", "four", "yyyyyyyy", "last"}));
  EXPECT_EQ(sizes, (std::vector<size_t>{3, 0, LineReader::kLongest, 4, LineReader::kLongest, 4}));
  EXPECT_TRUE(read[2].cut);
  EXPECT_TRUE(read[4].cut);
  EXPECT_EQ(read[5].number, 6);
  EXPECT_FALSE(read[5].terminated);
  EXPECT_TRUE(read[4].terminated);
}

}  // namespace
}  // namespace stalltrace::import
