// SPDX-License-Identifier: Apache-2.0
// Reports in the forms of NCCL's src/ras/client_support.cc (2.24 to 2.30) and its user guide; none is a copy of a real
// job's.
#include <gtest/gtest.h>

#include <set>

#include "base/clock.h"
#include "import/nccl_ras/report.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported_evidence.h"
#include "tests/support/golden_text.h"

namespace stalltrace::import {
namespace {

const std::string kHead =
    "NCCL version 2.29.1 compiled with CUDA 13.0\nCUDA runtime version 13000, driver version 13000\n\n"
    "Job summary\n===========\n\n"
    "  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n"
    "      4          8            1         32       32\n\nCommunicators... (0.00s)\n=============\n\n"
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    #  in group  per comm  per node  per comm  in group\n";

std::string text_report(const std::string& groups, const std::string& errors, const std::string& warnings) {
  return kHead + groups + "\nErrors\n======\n\n" + errors + "Warnings\n========\n\n" + warnings;
}

const std::string kHealthy =
    text_report("    0         8         4         1         4        32   RUNNING      OK\n", "", "");
const std::string kMismatch =
    text_report("    0         1         4         8        32        32   RUNNING  MISMATCH\n", "",
                "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
                "  30 ranks have launched up to operation 6650\n  2 ranks have launched up to operation 6649\n"
                "  Rank 5 -- GPU 5 managed by process 483077 on node 172.16.64.210\n"
                "  Rank 7 -- GPU 7 (NVML 3) managed by process 483079 on node 172.16.64.211\n\n");
const std::string kIncomplete = text_report(
    "    0         1         4       7-8        32        32   RUNNING  INCOMPLETE\n",
    "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
    "  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n#0-0 (cf264af53edbe986) INCOMPLETE\n"
    "  Missing communicator data from 1 rank\n  Rank 21 -- GPU 5 managed by process 3487984 on node 172.16.64.213\n\n",
    "TIMEOUT\n  Encountered 2 communication timeouts while gathering communicator data\n\n");

/// The statements of all reports, as they are recorded.
std::vector<std::string> statements(const RasReports& read) {
  std::vector<std::string> out;
  for (const RasReport& report : read.reports) {
    for (const auto& [line, statement] : report.statements) {
      out.push_back(ras_text(statement));
    }
  }
  return out;
}

std::string rank_json(int rank, int count) {
  return fmt::format(
      "        {{\n          \"rank\": {0},\n          \"host\": \"10.0.0.{0}\",\n          \"pid\": {1},\n"
      "          \"cuda_dev\": {0},\n          \"nvml_dev\": {0},\n          \"status\": {{\n            "
      "\"init_state\": 0,\n"
      "            \"async_error\": 0,\n            \"finalize_called\": false,\n            \"destroy_flag\": false,\n"
      "            \"abort_flag\": false\n          }},\n          \"collective_counts\": {{\n            "
      "\"Broadcast\": 2,\n"
      "            \"AllReduce\": {2}\n          }}\n        }}",
      rank, 100 + rank, count);
}

/// As 2.28.9 writes it if `comma` is empty: one is missing before the status of a missing rank.
std::string json_report(const std::string& ranks, std::string_view comma = ",") {
  return "{\n  \"nccl_version\": \"2.28.9\",\n  \"cuda_runtime_version\": 13000,\n  \"cuda_driver_version\": 13000,\n"
         "  \"timestamp\": \"2026-05-05 10:00:03\",\n  \"communicators_count\": 1,\n  \"communicators\": [\n    {\n"
         "      \"hash\": \"0xae94423cfbb2ef4a\",\n      \"secondary_hash\": \"0xb7:0xb8\",\n      \"size\": 3,\n"
         "      \"ranks_count\": 2,\n      \"missing_ranks_count\": 1,\n      \"ranks\": [\n" +
         ranks +
         "\n      ],\n      \"missing_ranks\": [\n        {\n          \"rank\": 2,\n          \"host\": "
         "\"10.0.0.2\",\n" +
         fmt::format("          \"pid\": 102,\n          \"cuda_dev\": 2,\n          \"nvml_dev\": 2{}\n", comma) +
         "          \"status\": {\n            \"unresponsive\": true,\n            \"considered_dead\": true\n        "
         "  }\n"
         "        }\n      ]\n    }\n  ],\n  \"ras\": {\n    \"collection_time_sec\": 0.000,\n    \"timeouts_count\": "
         "1\n  }\n}\n";
}

TEST(NcclRas, AHealthyReportSaysNothingOfRanks) {
  const RasReports read = read_ras_reports("SERVER PROTOCOL 2\nOK\n" + kHealthy);
  ASSERT_EQ(read.reports.size(), 1U);
  const RasReport& report = read.reports[0];
  EXPECT_EQ(statements(read), std::vector<std::string>());
  EXPECT_EQ(report.version, "2.29.1");
  EXPECT_EQ(report.comms, 8);
  EXPECT_EQ(report.comms_at_fault, 0);
  EXPECT_EQ(report.gpus, 32);
  EXPECT_TRUE(report.whole);
  EXPECT_EQ(report.line, 3);
}

TEST(NcclRas, RanksThatAreBehind) {
  EXPECT_EQ(
      statements(read_ras_reports(kMismatch)),
      (std::vector<std::string>{
          "comm 0x27a079b828ff1a75 nranks 32 job members 30 launched AllReduce 6650",
          "comm 0x27a079b828ff1a75 nranks 32 job rank 5 host 172.16.64.210 pid 483077 gpu 5 launched AllReduce 6649",
          "comm 0x27a079b828ff1a75 nranks 32 job rank 7 host 172.16.64.211 pid 483079 gpu 7 launched AllReduce 6649",
      }));
  const RasReports alone = read_ras_reports(text_report(
      "    0         2         4         8        16        32   RUNNING  MISMATCH\n", "",
      "#0-1 (0000000000000abc) MISMATCH\n  Communicator ranks have different Broadcast operation counts\n"
      "  15 ranks have launched up to operation 1\n"
      "  Rank 3 has not launched any operations -- GPU 3 managed by process 9 on node fe80::1\n\n"
      "  Communicator ranks have different Reduce operation counts\n  15 ranks have not launched any operations\n"
      "  Rank 3 has launched up to operation 4 -- [process information not found]\n\n"));
  EXPECT_EQ(statements(alone),
            (std::vector<std::string>{"comm 0xabc nranks 16 members 15 launched Broadcast 1",
                                      "comm 0xabc nranks 16 rank 3 host fe80::1 pid 9 gpu 3 launched Broadcast 0",
                                      "comm 0xabc nranks 16 members 15 launched Reduce 0",
                                      "comm 0xabc nranks 16 rank 3 launched Reduce 4"}));
}

TEST(NcclRas, NamesHaveALimit) {
  const std::string name(10'000, 'x');
  const RasReports read = read_ras_reports(
      text_report("    0         2         4         8        16        32   RUNNING  MISMATCH\n", "",
                  "#0-1 (0000000000000abc) MISMATCH\n  Communicator ranks have different " + name +
                      " operation counts\n  15 ranks have launched up to operation 1\n"
                      "  Rank 3 has launched up to operation 4 -- GPU 3 managed by process 9 on node " +
                      name + "\n\n"));
  ASSERT_EQ(read.reports.size(), 1U);
  ASSERT_EQ(read.reports[0].statements.size(), 2U);
  for (const auto& [line, statement] : read.reports[0].statements) {
    EXPECT_LE(statement.host.size(), kMostRasName);
    ASSERT_EQ(statement.launched.size(), 1U);
    EXPECT_EQ(statement.launched[0].first, std::string(kMostRasName, 'x'));
  }
}

/// The order of these rows is that of the lines: members that are not listed come after those that are.
TEST(NcclRas, ProcessesThatDoNotAnswer) {
  const RasReports read = read_ras_reports(kIncomplete);
  EXPECT_EQ(
      statements(read),
      (std::vector<std::string>{
          "process host 172.16.64.213 pid 3487984 gpu 5 state dead",
          "comm 0xcf264af53edbe986 nranks 32 job rank 21 host 172.16.64.213 pid 3487984 gpu 5 state unresponsive"}));
  EXPECT_EQ(read.reports[0].timeouts, 2);
  const RasReports old = read_ras_reports(text_report(
      "    0         1         4       7-8        32        32   RUNNING  INCOMPLETE\n",
      "INCOMPLETE\n  Missing communicator data from 1 job process\n  Process 7 on node 10.0.0.1 managing GPUs 5,6\n\n"
      "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 2 ranks\n  The missing ranks: 20,21\n\n",
      ""));
  EXPECT_EQ(statements(old),
            (std::vector<std::string>{"process host 10.0.0.1 pid 7 gpu 5 state unresponsive",
                                      "comm 0xcf264af53edbe986 nranks 32 job rank 20 state unresponsive",
                                      "comm 0xcf264af53edbe986 nranks 32 job rank 21 state unresponsive"}));
}

TEST(NcclRas, StatesAndErrors) {
  const RasReports read = read_ras_reports(text_report(
      "    0         1         4       1-2        32        32  FINALIZE  ERROR,MISMATCH\n",
      "#0-0 (9e17999afaa87dbb) ERROR\n  Initialization error on 1 rank\n"
      "  Rank 2 reported System error -- GPU 2 managed by process 12 on node 10.0.0.1\n"
      "  Asynchronous errors on 3 ranks\n  3 ranks reported Remote process error\n\n",
      "#0-0 (9e17999afaa87dbb) MISMATCH\n  Communicator ranks have different status\n  28 ranks have status NOCOMM\n"
      "  4 ranks have status RUNNING\n  Rank 0 -- GPU 0 managed by process 10 on node 10.0.0.1\n\n"));
  EXPECT_EQ(
      statements(read),
      (std::vector<std::string>{"comm 0x9e17999afaa87dbb nranks 32 job members 0 state finalize",
                                "comm 0x9e17999afaa87dbb nranks 32 job rank 2 host 10.0.0.1 pid 12 gpu 2 init_error 2",
                                "comm 0x9e17999afaa87dbb nranks 32 job members 3 async_error 6",
                                "comm 0x9e17999afaa87dbb nranks 32 job members 0 state finalize",
                                "comm 0x9e17999afaa87dbb nranks 32 job members 28 state nocomm",
                                "comm 0x9e17999afaa87dbb nranks 32 job rank 0 host 10.0.0.1 pid 10 gpu 0 state running",
                                "comm 0x9e17999afaa87dbb nranks 32 job members 3 state running"}));
}

TEST(NcclRas, JsonAndItsMissingComma) {
  const std::vector<std::string> expected{
      "comm 0xae94423cfbb2ef4a nranks 3 job rank 0 host 10.0.0.0 pid 100 gpu 0 state running launched Broadcast 2 "
      "AllReduce 9",
      "comm 0xae94423cfbb2ef4a nranks 3 job rank 1 host 10.0.0.1 pid 101 gpu 1 state running launched Broadcast 2 "
      "AllReduce 8",
      "comm 0xae94423cfbb2ef4a nranks 3 job rank 2 host 10.0.0.2 pid 102 gpu 2 state dead"};
  const std::string ranks = rank_json(0, 9) + ",\n" + rank_json(1, 8);
  EXPECT_EQ(statements(read_ras_reports(json_report(ranks))), expected);
  EXPECT_EQ(statements(read_ras_reports("OK\n" + json_report(ranks, ""))), expected);
  const RasReports two = read_ras_reports(json_report(ranks) + "\n" + kMismatch + json_report(ranks, ""));
  EXPECT_EQ(two.reports.size(), 3U);
  EXPECT_EQ(two.refused, 0U);
  EXPECT_EQ(two.reports[0].time, "2026-05-05 10:00:03");
  EXPECT_EQ(two.reports[0].timeouts, 1);
}

/// In the middle of a second communicator: the first is kept.
TEST(NcclRas, JsonThatWasCutOff) {
  const std::string whole = json_report(rank_json(0, 9));
  const std::string cut =
      whole.substr(0, whole.find("\n  ],\n  \"ras\"")) + ",\n    {\n      \"hash\": \"0x5\",\n      \"si";
  const RasReports read = read_ras_reports(cut);
  ASSERT_EQ(read.reports.size(), 1U);
  EXPECT_FALSE(read.reports[0].whole);
  EXPECT_EQ(read.reports[0].comms, 1);
  EXPECT_EQ(read_ras_reports(whole.substr(0, 200)).refused, 1U);
}

TEST(NcclRas, WhatIsNone) {
  for (const std::string_view text :
       {"", "{}", "{\n{\n", "{\"communicators\": 5}", "#0-0 (zz) MISMATCH\n  Rank 5\n", "Job summary\n",
        "{\n\"nccl_version\": \"x\", \"communicators\": [{\"size\": -1}, {\"size\": 99999999999999}, 5]}",
        "{\n\"nccl_version\": {\"communicators\": []}}"}) {
    EXPECT_EQ(statements(read_ras_reports(text)), std::vector<std::string>()) << text;
  }
}

TEST(NcclRas, StatementsAsTextAndBack) {
  RasStatement whole{
      .hash = 0x1f, .nranks = 32, .whole_job = true, .rank = 21, .host = "10.0.0.2", .pid = 99, .gpu = 5};
  whole.state = RasState::kAbort;
  whole.init_error = 2;
  whole.async_error = 6;
  whole.launched = {{"AllReduce", 6649}, {"Broadcast", 12}};
  const std::string text = ras_text(whole);
  const auto read = ras_statement_from_text(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(ras_text(*read), text);
  EXPECT_EQ(read->gpu, 5);
  EXPECT_EQ(read->launched, whole.launched);
  RasStatement hostile{.hash = ~0ULL, .nranks = 1 << 30, .rank = 1 << 30, .host = std::string(5000, '\n')};
  hostile.launched.assign(500, {std::string(500, ' '), ~0ULL});
  EXPECT_LE(ras_text(hostile).size(), 1024U);
  for (const std::string_view other :
       {"", "comm", "comm 0xzz", "comm 5", "process pid -1", "comm 0x1 launched AllReduce",
        "comm 0x1 launched AllReduce x", "comm 0x1 state x", "commit 0x1 rank 2"}) {
    EXPECT_FALSE(ras_statement_from_text(other)) << other;
  }
}

TEST(NcclRas, FilesAreNodes) {
  EvidenceFolder folder;
  const std::string series =
      folder.write("series.json", json_report(rank_json(0, 9)) + json_report(rank_json(0, 9), ""));
  const std::string text = folder.write("ras.txt", kMismatch);
  const std::string bad =
      folder.write("bad.json", "{\n  \"nccl_version\": \"2.28.9\",\n  \"communicators_count\": 1,\n");
  for (const std::string& path : {series, text, bad}) {
    EXPECT_EQ(detect(path).value(), std::vector<Format>{Format::kNcclRas}) << path;
  }
  MemorySource source;
  std::vector<std::string> notes;
  const std::vector<std::string> paths{series, text, bad};
  const Result<Summary> summary =
      import_nccl_ras(paths, source, [&](const std::string& note) { notes.push_back(note); });
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->files, 2U);
  EXPECT_EQ(summary->rows, 3U);
  std::string notes_text;
  for (const std::string& note : notes) {
    notes_text += note + "\n";
  }
  golden::expect_text(notes_text, {{folder.path(), "FOLDER"}});
  const std::vector<LogLine> heads = lines_of(source, LogKind::kVersion);
  ASSERT_EQ(heads.size(), 3U);
  EXPECT_EQ(heads[0].timestamp_ns, 1'777'975'203'000'000'000);  // 2026-05-05T10:00:03Z
  golden::expect_text(heads[0].text);
  std::set<std::string> lost;
  const std::vector<Loss> losses = source.losses().value();
  for (const Loss& loss : losses) {
    lost.insert(loss.source);
  }
  EXPECT_EQ(lost, (std::set<std::string>{"ras:unreadable_file"}));
  const std::vector<Node> nodes = source.nodes().value();
  for (const Node& node : nodes) {
    EXPECT_EQ(node.agent_version, kRasFormat);
    EXPECT_TRUE(lacks(node, kLacksCalls));
  }
}

}  // namespace
}  // namespace stalltrace::import
