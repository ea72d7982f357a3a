// SPDX-License-Identifier: Apache-2.0
// Lines in the form of NCCL's plugins/profiler/inspector/inspector_json.cc and its README; none is a copy of a real
// job's.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "import/nccl_inspector/record.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported/inspector.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

constexpr int64_t kDumpedUs = 1'777'975'203'000'000;

std::string line(int rank, int number, int64_t duration_us, std::string_view more = "") {
  return fmt::format(
      "{{\"header\":{{\"id\":\"0xabc\",\"comm_name\":\"unknown\",\"rank\":{},\"n_ranks\":4,\"nnodes\":2}},\"metadata\":"
      "{{\"inspector_output_format_version\":\"v4.0\",\"git_rev\":\"\",\"rec_mechanism\":\"nccl_profiler_interface\","
      "\"dump_timestamp_us\":{},\"hostname\":\"node{}\",\"pid\":{}}},\"coll_perf\":{{\"coll\":\"AllReduce\",\"coll_"
      "sn\":{},"
      "\"coll_msg_size_bytes\":1048576,\"coll_exec_time_us\":{},\"coll_timing_source\":\"kernel_gpu\",\"coll_algobw_"
      "gbs\":"
      "277.2,\"coll_busbw_gbs\":485.1{}}}}}\n",
      rank, kDumpedUs, rank / 2, 100 + rank, number, duration_us, more);
}

const std::string kTrace =
    ",\"event_trace_ts\":{\"coll_start_ts\":1777975202000000,\"coll_stop_ts\":1777975202000005,\"kernel_events\":["
    "{\"channel_id\":0,\"kernel_start_ts\":1777975202000200,\"kernel_stop_ts\":1777975202041000,\"kernel_record_ts\":5}"
    ","
    "{\"channel_id\":1,\"kernel_start_ts\":1777975202000100,\"kernel_stop_ts\":1777975202041000,\"kernel_record_ts\":5}"
    "]}";
const std::string kPair =
    "{\"header\":{\"id\":\"0xabc\",\"rank\":1,\"n_ranks\":4,\"nnodes\":2},\"metadata\":{\"dump_timestamp_us\":"
    "1777975203000000,\"hostname\":\"node0\",\"pid\":101},\"p2p_perf\":{\"p2p\":\"Send\",\"p2p_sn\":7,\"p2p_peer\":2,"
    "\"p2p_msg_size_bytes\":4096,\"p2p_exec_time_us\":50,\"p2p_timing_source\":\"kernel_cpu\"}}\n";

TEST(NcclInspector, ALine) {
  const auto brief = read_inspector_line(line(3, 1407, 61'974));
  ASSERT_TRUE(brief);
  EXPECT_EQ(brief->comm, 0xabcU);
  EXPECT_EQ(brief->rank, 3);
  EXPECT_EQ(brief->nranks, 4);
  EXPECT_EQ(brief->host, "node1");
  EXPECT_EQ(brief->pid, 103);
  EXPECT_EQ(brief->op, Operation::kAllReduce);
  EXPECT_EQ(brief->number, 1407);
  EXPECT_EQ(brief->bytes, 1'048'576);
  EXPECT_EQ(brief->duration_ns, 61'974'000);
  EXPECT_TRUE(brief->by_device);
  EXPECT_FALSE(brief->started_ns);
  EXPECT_EQ(read_inspector_line(line(3, 1407, 61'974, kTrace))->started_ns, 1'777'975'202'000'100'000);
  const auto pair = read_inspector_line(kPair);
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->op, Operation::kSend);
  EXPECT_EQ(pair->peer, 2);
  EXPECT_FALSE(pair->by_device);
}

TEST(NcclInspector, WhatIsNone) {
  std::string other_rank = line(3, 1, 5);
  other_rank.replace(other_rank.find("\"rank\":3"), 8, "\"rank\":4");
  std::string long_call = line(3, 1, 5);
  long_call.replace(long_call.find("time_us\":5"), 10, "time_us\":99999999999999");
  for (const std::string& text :
       {std::string(), std::string("{}"), line(3, 1, 5).substr(0, 250), other_rank, long_call,
        std::string("{\"header\":5,\"coll_perf\":[]}"), std::string("{\"header\":{\"id\":\"0\"},\"p2p_perf\":{}}")}) {
    EXPECT_FALSE(read_inspector_line(text)) << text;
  }
}

TEST(NcclInspector, FilesBecomeCalls) {
  EvidenceFolder folder;
  const std::string first = folder.write("node0-pid101.log", line(1, 7, 500) + line(1, 8, 600, kTrace) + kPair);
  const std::string second = folder.write("node1-pid103.log", line(3, 7, 500) + line(3, 8, 400).substr(0, 300));
  const std::string none = folder.write("empty.log", line(3, 7, 500).substr(0, 300));
  EXPECT_EQ(detect(first).value(), std::vector<Format>{Format::kNcclInspector});
  MemorySource source;
  std::vector<std::string> notes;
  const std::vector<std::string> paths{first, second, none};
  const Result<Summary> summary =
      import_nccl_inspector(paths, source, [&](const std::string& note) { notes.push_back(note); });
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->files, 2U);
  EXPECT_EQ(summary->calls, 4U);
  EXPECT_EQ(summary->processes, 2U);
  EXPECT_EQ(notes.size(), 2U);
  const std::vector<Collective> calls = calls_of(source);
  ASSERT_EQ(calls.size(), 4U);
  for (const Collective& call : calls) {
    EXPECT_EQ(call.completion, Completion::kProfiler);
    EXPECT_EQ(call.comm_id_hash, inspector_sequence(0xabc, call.op));
  }
  EXPECT_EQ(calls[0].timestamp_ns, 1'777'975'202'000'100'000);  // of a line with times
  EXPECT_EQ(calls[0].kernel_end_ns, calls[0].timestamp_ns + 600 * kNsPerUs);
  EXPECT_EQ(calls[1].timestamp_ns, kDumpedUs * kNsPerUs - 500 * kNsPerUs);
  EXPECT_FALSE(calls[1].kernel_start_ns);
  const std::vector<Communicator> comms = source.communicators().value();
  for (const Communicator& comm : comms) {
    EXPECT_EQ(comm.nccl_comm_hash, 0xabcU);
  }
  size_t hosts = 0;
  const std::vector<Node> nodes = source.nodes().value();
  for (const Node& node : nodes) {
    EXPECT_TRUE(lacks(node, kLacksBegins));
    hosts += node.name == "node0" || node.name == "node1" ? 1 : 0;
  }
  EXPECT_EQ(hosts, 2U);
}

TEST(NcclInspector, OfEachSequenceTheLastCallsAreKept) {
  EvidenceFolder folder;
  std::string text;
  for (int number = 0; number < 200; ++number) {
    text += line(1, number, 500);
  }
  const std::vector<std::string> paths{folder.write("a.log", text)};
  MemorySource source;
  const Result<Summary> summary = import_nccl_inspector(paths, source, [](const std::string&) {}, {.most_calls = 100});
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->calls, 100U);
  EXPECT_EQ(summary->calls_left, 100U);
  EXPECT_EQ(calls_of(source).front().seq, 100);
}

}  // namespace
}  // namespace stalltrace::import
