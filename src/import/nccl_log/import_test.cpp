// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/files/sqlite_magic.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported_evidence.h"
#include "tests/support/golden_text.h"

namespace stalltrace::import {
namespace {

struct Read {
  MemorySource source;
  std::vector<std::string> notes;
  Summary summary;
};

std::unique_ptr<Read> read(const std::vector<std::string>& paths, const Options& options = {}) {
  auto out = std::make_unique<Read>();
  const Result<Summary> summary = import_nccl_logs(
      paths, out->source, [&](const std::string& note) { out->notes.push_back(note); }, options);
  EXPECT_TRUE(summary) << summary.error().what;
  out->summary = summary.value_or(Summary{});
  return out;
}

std::string job_lines(int rank, int calls, int from = 0) {
  std::string text;
  for (int i = from; i < calls; ++i) {
    text += call_line(rank, i);
  }
  return text;
}

TEST(NcclLog, CallsGetNumbersRanksAndCommunicators) {
  EvidenceFolder folder;
  const auto got = read({folder.write("a.log", set_up_lines(0) + job_lines(0, 3)),
                         folder.write("b.log", set_up_lines(3) + job_lines(3, 2))});
  const std::vector<Collective> calls = calls_of(got->source);
  ASSERT_EQ(calls.size(), 5U);
  std::set<std::pair<int32_t, int64_t>> seen;
  for (const Collective& call : calls) {
    EXPECT_EQ(call.comm_id_hash, 0xfeedbeef12345678U);
    EXPECT_EQ(call.completion, Completion::kUnobserved);
    EXPECT_EQ(call.duration_ns, std::nullopt);
    EXPECT_EQ(call.nranks, 4);
    EXPECT_EQ(call.bytes, 4096);
    EXPECT_EQ(call.root, std::nullopt);
    seen.insert({call.rank.value(), call.seq.value()});
  }
  EXPECT_EQ(seen, (std::set<std::pair<int32_t, int64_t>>{{0, 0}, {0, 1}, {0, 2}, {3, 0}, {3, 1}}));
  const std::vector<Node> nodes = got->source.nodes().value();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_TRUE(lacks(nodes[0], kLacksDurations));
  EXPECT_TRUE(lacks(nodes[0], kLacksTimes));
}

TEST(NcclLog, WithoutSetUpTheLargestCommunicatorIsMatched) {
  EvidenceFolder folder;
  const auto got = read({folder.write("rank0.log", call_line(0, 0x1e)), folder.write("rank3.log", call_line(3, 0x1d))});
  const std::vector<Collective> calls = calls_of(got->source);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].comm_id_hash, calls[1].comm_id_hash);
  EXPECT_NE(calls[0].comm_id_hash, 0U);
  const std::vector<Communicator> comms = got->source.communicators().value();
  ASSERT_EQ(comms.size(), 2U);
  EXPECT_EQ(comms[0].nccl_comm_hash, 0U);
}

TEST(NcclLog, TwoCommunicatorsOfOneSizeAreNotMatched) {
  EvidenceFolder folder;
  std::string other = call_line(0, 5);
  other.replace(other.find("comm 0x7f"), 9, "comm 0x6e");
  const auto got =
      read({folder.write("rank0.log", call_line(0, 0x1e) + other), folder.write("rank3.log", call_line(3, 0x1d))});
  for (const Collective& call : calls_of(got->source)) {
    EXPECT_EQ(call.comm_id_hash, 0U);
    EXPECT_EQ(call.seq, std::nullopt);
  }
}

TEST(NcclLog, OpCountThatStandsStillIsNoNumber) {
  EvidenceFolder folder;
  // NCCL 2.27 and newer count launches with a proxy: a rank without one stays at 0. From the set-up on the calls
  // themselves are counted.
  std::string still;
  for (int i = 0; i < 5; ++i) {
    still += call_line(1, 0);
  }
  const auto got =
      read({folder.write("a.log", set_up_lines(0) + job_lines(0, 5)), folder.write("b.log", set_up_lines(1) + still)});
  std::multiset<int64_t> numbers;
  for (const Collective& call : calls_of(got->source)) {
    numbers.insert(call.seq.value());
  }
  EXPECT_EQ(numbers, (std::multiset<int64_t>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4}));
  // Without the set-up, nothing says how many calls came before.
  const auto cut = read({folder.write("c.log", job_lines(0, 5)), folder.write("d.log", still)});
  for (const Collective& call : calls_of(cut->source)) {
    EXPECT_EQ(call.seq, std::nullopt);
  }
}

TEST(NcclLog, SendsAreNotCountedAsCollectives) {
  EvidenceFolder folder;
  const auto got = read({folder.write("a.log", set_up_lines(0) + call_line(0, 0) + call_line(0, 1, "Send") +
                                                   call_line(0, 2, "Send") + call_line(0, 3)),
                         folder.write("b.log", set_up_lines(1) + call_line(1, 0) + call_line(1, 1))});
  std::vector<std::optional<int64_t>> numbers;
  for (const Collective& call : calls_of(got->source)) {
    if (is_collective(call.op)) {
      numbers.push_back(call.seq);
    } else {
      EXPECT_EQ(call.seq, std::nullopt);
      EXPECT_EQ(call.peer, 0);
    }
  }
  EXPECT_EQ(numbers.size(), 4U);
  EXPECT_EQ(std::ranges::count(numbers, std::optional<int64_t>(1)), 2);
}

TEST(NcclLog, TheEndOfADamagedLogIsNotKnown) {
  EvidenceFolder folder;
  const auto kinds = [&](const std::string& text) {
    const auto got = read({folder.write("a.log", text)});
    return std::pair(lines_of(got->source, LogKind::kEnd).size(), lines_of(got->source, LogKind::kCut).size());
  };
  const std::string whole = set_up_lines(0) + job_lines(0, 3);
  const std::pair<size_t, size_t> kEnds{1, 0};
  const std::pair<size_t, size_t> kCuts{0, 1};
  EXPECT_EQ(kinds(whole), kEnds);
  EXPECT_EQ(kinds(whole + "done\n"), kEnds);
  EXPECT_EQ(kinds(whole.substr(0, whole.size() - 1)), kCuts);      // what came after the call may be missing
  EXPECT_EQ(kinds(whole + call_line(0, 3).substr(0, 60)), kCuts);  // cut in a call
  EXPECT_EQ(kinds(whole + "node0:10"), kCuts);                     // cut in a prefix
  EXPECT_EQ(kinds(whole + "[1,0]<stdout>:nod"), kCuts);            // in the host
  EXPECT_EQ(kinds(whole + "epoch 3:  98%|####9 |"), kCuts);        // no line of NCCL's, but no end either
  EXPECT_EQ(kinds(whole + "epoch 3:  98%|####9 |\n"), kEnds);
  EXPECT_EQ(kinds(whole + "node0:100:2\n"), kCuts);  // cut by its launcher, which ended the line
  EXPECT_EQ(kinds(whole + "[1,0]<stdout>:node0:100:200 [0] NCCL IN\n"), kCuts);
  EXPECT_EQ(kinds(whole + "[1779.5] [node0:100:0] sock.c:12 UCX WARN x\n"), kEnds);
  EXPECT_EQ(kinds(whole + "node0:999:200 [0] NCCL IN\n"), kEnds);      // of no process of this log
  EXPECT_EQ(kinds(whole + "AllReduce: opCount 3 sendbuff\n"), kCuts);  // its beginning went elsewhere
  const std::pair<size_t, size_t> kOneOfEach{1, 1};  // the other process of the line made no call afterwards
  EXPECT_EQ(kinds(whole + "node0:100:200 [0] NCCL INFO node1:102:202 [0] NCCL INFO Trees\n" + call_line(0, 3)),
            kOneOfEach);
}

TEST(NcclLog, MixedRanksInOneFileWithEveryDamage) {
  EvidenceFolder folder;
  std::string text = "starting\n\x1b[32mok\x1b[0m\r\n";
  for (int rank = 0; rank < 4; ++rank) {
    text += fmt::format("[1,{}]<stdout>:", rank) + set_up_lines(rank);
  }
  for (int i = 0; i < 4; ++i) {
    for (int rank = 0; rank < 4; ++rank) {
      std::string line = call_line(rank, i);
      line.insert(line.size() - 1, "\r");
      text += fmt::format("[1,{}]<stdout>:", rank) + line;
    }
    text += std::string("\0\xff\xfe binary", 9) + "\n";
  }
  const auto got = read({folder.write("mpi.log", text)});
  EXPECT_EQ(calls_of(got->source).size(), 16U);
  EXPECT_EQ(got->summary.processes, 4U);
  EXPECT_EQ(lines_of(got->source, LogKind::kEnd).size(), 4U);
  const std::vector<Process> processes = got->source.processes().value();
  ASSERT_EQ(processes.size(), 4U);
  std::set<int32_t> ranks;
  for (const Process& process : processes) {
    ranks.insert(process.rank.value());
  }
  EXPECT_EQ(ranks, (std::set<int32_t>{0, 1, 2, 3}));
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

TEST(NcclLog, TwoAttemptsWithOneHostAndPidAreTwoProcesses) {
  EvidenceFolder folder;
  const std::string first = set_up_lines(0) + job_lines(0, 9);
  const std::string second = replaced(set_up_lines(0), "feedbeef", "0badcafe") + job_lines(0, 4);
  const auto got = read({folder.write("a/job.log", first), folder.write("b/job.log", second)});
  EXPECT_TRUE(got->notes.empty());
  std::map<CommHash, int> calls;
  for (const Collective& call : calls_of(got->source)) {
    ++calls[call.comm_id_hash];
  }
  EXPECT_EQ(calls, (std::map<CommHash, int>{{0xfeedbeef12345678U, 9}, {0x0badcafe12345678U, 4}}));
  EXPECT_EQ(got->source.nodes().value().size(), 2U);
}

TEST(NcclLog, TwoContainersWithOneNameAreTwoProcesses) {
  EvidenceFolder folder;
  const std::string other = replaced(set_up_lines(2) + job_lines(2, 5), "node1:102:202", "node0:100:200");
  const auto got = read({folder.write("a.log", set_up_lines(0) + job_lines(0, 5)), folder.write("b.log", other)});
  std::set<int32_t> ranks;
  for (const Collective& call : calls_of(got->source)) {
    ranks.insert(call.rank.value());
  }
  EXPECT_EQ(ranks, (std::set<int32_t>{0, 2}));
  EXPECT_EQ(got->source.nodes().value().size(), 2U);
}

TEST(NcclLog, ACopyIsReadOnce) {
  EvidenceFolder folder;
  const auto got = read({folder.write("a.log", set_up_lines(0) + job_lines(0, 5)),
                         folder.write("copy.log", set_up_lines(0) + job_lines(0, 3))});
  EXPECT_EQ(calls_of(got->source).size(), 5U);
  EXPECT_EQ(got->notes.size(), 1U);
}

TEST(NcclLog, DamageIsReportedAndCounted) {
  EvidenceFolder folder;
  const auto got = read({folder.write(
      "a.log", set_up_lines(0) + call_line(0, 0) + "node0:100:200 [0] NCCL INFO AllRe\n" + call_line(0, 2))});
  ASSERT_EQ(got->notes.size(), 1U);
  golden::expect_text(got->notes[0], {{folder.path(), "FOLDER"}});
  EXPECT_NE(got->notes[0].find("line 4"), std::string::npos) << got->notes[0];
  const std::vector<Loss> losses = got->source.losses().value();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].source, "log:damaged_lines");
  EXPECT_EQ(losses[0].count, 1U);
  EXPECT_EQ(calls_of(got->source).size(), 2U);  // what was good is kept
}

TEST(NcclLog, OfAProcessInTwoFilesTheNewerCallsCount) {
  EvidenceFolder folder;
  const auto got =
      read({folder.write("old.log", set_up_lines(0) + job_lines(0, 3)), folder.write("new.log", job_lines(0, 6, 3))});
  EXPECT_EQ(calls_of(got->source).size(), 3U);
  EXPECT_EQ(got->notes.size(), 1U);
}

TEST(NcclLog, OnlyTheLastCallsWhereTheyHaveToFit) {
  EvidenceFolder folder;
  const auto got = read({folder.write("a.log", set_up_lines(0) + job_lines(0, 100))}, {.most_calls = 20});
  const std::vector<Collective> calls = calls_of(got->source);
  ASSERT_EQ(calls.size(), 20U);
  EXPECT_EQ(calls.back().seq, 99);
  EXPECT_EQ(got->summary.calls_left, 80U);
}

TEST(NcclLog, WarningsTransportsAndTimeouts) {
  EvidenceFolder folder;
  const auto got = read({folder.write(
      "a.log", set_up_lines(0) + "node0:100:200 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.2<0>\n" +
                   "node0:100:200 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n\n" +
                   "node0:100:200 [0] misc/socket.cc:50 NCCL WARN Call to recv failed\n" +
                   "[rank3]:[E505 10:10:03.4 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation "
                   "timeout: WorkNCCL(SeqNum=31)\n")});
  EXPECT_EQ(lines_of(got->source, LogKind::kInterface).size(), 1U);
  EXPECT_EQ(lines_of(got->source, LogKind::kTransport).size(), 1U);
  const std::vector<LogLine> warnings = lines_of(got->source, LogKind::kWarning);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].text, "Call to recv failed");
  EXPECT_EQ(warnings[0].line, 6);
  EXPECT_EQ(warnings[0].rank, 0);
  EXPECT_EQ(lines_of(got->source, LogKind::kTimeout).size(), 1U);
}

TEST(NcclLog, NoLineIsLaterThanItsFile) {
  EvidenceFolder folder;
  const std::string path = folder.write(
      "a.log",
      "Parameters which did not receive grad for rank 0: a.weight\n"  // without a time: the file's
      "[rank1]:[E505 10:00:00.4 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=31)\n");
  constexpr timespec kWritten{.tv_sec = 1'795'773'600,
                              .tv_nsec = 0};  // 2026-11-27, nearer to May 2027 than to May 2026
  const std::array times{kWritten, kWritten};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
  const auto got = read({path});
  EXPECT_EQ(lines_of(got->source, LogKind::kWarning).size(), 1U);
  const std::vector<LogLine> lines = lines_of(got->source, LogKind::kTimeout);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].timestamp_ns, 1'777'975'200'400'000'000);
}

std::string traceback_lines(std::string_view label, std::string_view last = "ValueError: secret 17") {
  return fmt::format(
      "{0}Traceback (most recent call last):\n{0}  File \"/home/u/train.py\", line 42, in step\n{0}    f()\n{0}{1}\n",
      label, last);
}

std::vector<PythonException> exceptions_of(MemorySource& source) {
  std::vector<PythonException> rows;
  EXPECT_TRUE(source.python_exceptions({}, [&](const PythonException& row) { rows.push_back(row); }));
  return rows;
}

TEST(NcclLog, ATracebackIsAnExceptionOfItsProcess) {
  EvidenceFolder folder;
  const auto got = read({folder.write("a.log", set_up_lines(0) + set_up_lines(1) + traceback_lines("[rank1]: "))});
  const std::vector<PythonException> rows = exceptions_of(got->source);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].type, "ValueError");
  EXPECT_EQ(rows[0].pid, 101);
  EXPECT_EQ(rows[0].tid, 101);
  EXPECT_EQ(rows[0].depth, 1);
  const std::vector<Stack> stacks = got->source.stacks().value();
  ASSERT_EQ(stacks.size(), 1U);
  EXPECT_EQ(stacks[0].stack_id, rows[0].stack_id);
  EXPECT_EQ(stacks[0].frames, "step (/home/u/train.py:42)");
  const std::vector<LogLine> lines = lines_of(got->source, LogKind::kException);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].rank, 1);
  EXPECT_EQ(lines[0].line, 5);
  EXPECT_EQ(lines[0].text, "[rank1]: Traceback (most recent call last):");  // the message may hold data
}

TEST(NcclLog, ATracebackOfARankWithoutAProcess) {
  EvidenceFolder folder;
  const auto got = read({folder.write("a.log", traceback_lines("[rank1]: ")),
                         folder.write("b.log", traceback_lines("[rank0]: ", "torch.distributed.DistBackendError: x"))});
  const std::vector<PythonException> rows = exceptions_of(got->source);
  ASSERT_EQ(rows.size(), 1U);
  const std::vector<Node> nodes = got->source.nodes().value();
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_TRUE(lacks(nodes[0], kLacksPids));
  std::map<int32_t, int32_t> ranks;
  const std::vector<Process> processes = got->source.processes().value();
  for (const Process& process : processes) {
    ranks[process.pid] = process.rank.value();
  }
  EXPECT_EQ(ranks[rows[0].pid], 1);
  EXPECT_EQ(lines_of(got->source, LogKind::kException).size(), 2U);
  EXPECT_EQ(detect(folder.path() + "/a.log"), std::vector{Format::kNcclLog});
}

TEST(NcclLog, MessagesOfExceptionsAreNotRecorded) {
  EvidenceFolder folder;
  std::string text = set_up_lines(0) + set_up_lines(1) + traceback_lines("[rank1]: ");
  text.insert(text.find("(most recent call last):") + 24, " token=secret");
  text += traceback_lines("[rank0]: ", "RuntimeError: NCCL error at https://user:secret@host");
  const auto got = read({folder.write("a.log", text)});
  const std::vector<LogLine> lines = lines_of(got->source, LogKind::kException);
  EXPECT_EQ(lines.size(), 2U);
  for (const LogLine& line : lines) {
    EXPECT_EQ(line.text.find("secret"), std::string::npos) << line.text;
  }
}

/// Logs of two attempts of a job: each has its own process of rank 1.
TEST(NcclLog, AnExceptionIsNotGivenToTheProcessOfAnotherFile) {
  EvidenceFolder folder;
  std::string other = set_up_lines(1);
  for (const auto& [from, to] : {std::pair(":101:", ":901:"), std::pair("0xfeedbeef12345678", "0x1eedbeef12345678")}) {
    for (size_t at = other.find(from); at != std::string::npos; at = other.find(from)) {
      other.replace(at, std::string_view(from).size(), to);
    }
  }
  ASSERT_NE(other, set_up_lines(1));
  const auto got =
      read({folder.write("1.log", set_up_lines(1) + traceback_lines("[rank1]: ")), folder.write("2.log", other)});
  const std::vector<PythonException> rows = exceptions_of(got->source);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_NE(rows[0].pid, 901);
}

TEST(NcclLog, AnExceptionOfAnUnknownRankIsCounted) {
  EvidenceFolder folder;
  const auto got = read({folder.write("a.log", set_up_lines(0) + set_up_lines(1) + traceback_lines(""))});
  EXPECT_TRUE(exceptions_of(got->source).empty());
  const std::vector<Loss> losses = got->source.losses().value();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].source, "log:exceptions_without_rank");
  const auto alone = read({folder.write("b.log", set_up_lines(3) + traceback_lines(""))});
  EXPECT_EQ(exceptions_of(alone->source).size(), 1U);  // the file is one process's
}

TEST(NcclLog, TransportsLeaveTheWatchdogItsRow) {
  EvidenceFolder folder;
  std::string text = set_up_lines(3);
  for (int i = 0; i < 3000; ++i) {
    text += fmt::format("node1:103:203 [1] NCCL INFO Channel {}/0 : 0[0] -> 1[1] via P2P/IPC\n", i);
  }
  text += "[rank3]:[E x] Watchdog caught collective operation timeout\nnode1:103:203 [1] x.cc:1 NCCL WARN failed\n";
  const auto got = read({folder.write("a.log", text)});
  EXPECT_EQ(lines_of(got->source, LogKind::kTransport).size(), 2048U);
  EXPECT_EQ(lines_of(got->source, LogKind::kTimeout).size(), 1U);
  EXPECT_EQ(lines_of(got->source, LogKind::kWarning).size(), 1U);
  const std::vector<Loss> losses = got->source.losses().value();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].source, "log:lines_not_kept");
  EXPECT_EQ(losses[0].count, 952U);
}

TEST(NcclLog, TransportsOfAllProcessesHaveALimit) {
  EvidenceFolder folder;
  std::string text;
  for (int i = 0; i < 201'000; ++i) {
    text += fmt::format("n:{}:1 [0] NCCL INFO Channel 0 : 0 -> 1 via P2P\n", 1 + i % 200);
  }
  const auto got = read({folder.write("a.log", text)});
  EXPECT_EQ(lines_of(got->source, LogKind::kTransport).size(), 200'000U);
  EXPECT_EQ(got->source.losses().value().at(0).count, 1000U);
}

constexpr std::string_view kWatchdogLine =
    "[rank3]:[E505 10:10:03.4 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=31)\n";

TEST(Detect, EndsInAFileWithoutLines) {
  EvidenceFolder folder;
  const std::string path = folder.write("sparse", "epoch 1\n");
  std::filesystem::resize_file(path, uintmax_t{200} << 30);  // takes no room on disk; would take minutes to read
  EXPECT_EQ(detect(path), std::vector{Format::kUnknown});
  const std::string late = folder.write("late", std::string(5000, 'x') + "\n");
  std::filesystem::resize_file(late, uintmax_t{200} << 30);
  std::ofstream(late, std::ios::app) << "\n" << kWatchdogLine;
  EXPECT_EQ(detect(late), std::vector{Format::kNcclLog});
}

TEST(Detect, WhatALongOutputEndsWith) {
  EvidenceFolder folder;
  std::string text;
  for (int i = 0; i < 210'000; ++i) {
    text += fmt::format("step {} loss {:.3f}\n", i, 5.0 / (1 + i % 7));
  }
  EXPECT_EQ(detect(folder.write("a", text)), std::vector{Format::kUnknown});
  EXPECT_EQ(detect(folder.write("a", text + std::string(kWatchdogLine))), std::vector{Format::kNcclLog});
  const std::string all = text + call_line(0, 1) +
                          "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.\n"
                          "Thread 4711 (idle): \"MainThread\"\n==============NVSMI LOG==============\n";
  EXPECT_EQ(detect(folder.write("a", all)),
            (std::vector{Format::kNcclLog, Format::kKernelLog, Format::kPySpy, Format::kNvidiaSmi}));
  for (const std::string_view line :
       {"RCCL version 2.18.3+hip5.7", "[Rank 0] Timeout at NCCL work: 31, last enqueued NCCL work: 40",
        "Ranks 1, 2 failed to pass monitoredBarrier in 3 ms", "[rank1]: Traceback (most recent call last):"}) {
    EXPECT_EQ(detect(folder.write("a", text + std::string(line) + "\n")), std::vector{Format::kNcclLog}) << line;
  }
}

TEST(Detect, ByContent) {
  EvidenceFolder folder;
  const auto format = [&](std::string_view content) { return detect(folder.write("x", content)).value().front(); };
  EXPECT_EQ(format(kSqliteMagic), Format::kRecording);
  EXPECT_EQ(format("STBLKBOX...."), Format::kProfilerFile);
  EXPECT_EQ(format("epoch 1\n" + call_line(0, 1)), Format::kNcclLog);
  EXPECT_EQ(format("\x80\x02}q.X\x07version"), Format::kFlightRecorder);
  EXPECT_EQ(format("\x80\x02}q."), Format::kOtherPickle);
  EXPECT_EQ(format("\x80\x02"
                   "cargparse\nNamespace\nX\x07version"),
            Format::kOtherPickle);
  EXPECT_EQ(format("{\"version\": \"2.4\", \"pg_config\": {}}"), Format::kFlightRecorder);
  EXPECT_EQ(format("{\"a\": 1}"), Format::kUnknown);
  EXPECT_EQ(format(""), Format::kUnknown);
  EXPECT_EQ(format("hello\n"), Format::kUnknown);
  EXPECT_FALSE(detect("/nonexistent/x"));
}

}  // namespace
}  // namespace stalltrace::import
