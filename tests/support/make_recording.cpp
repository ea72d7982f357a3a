// SPDX-License-Identifier: Apache-2.0
// make_recording FILE [COLLECTIVES [STALLED]]: a small recording for tests of the command line: one node, two ranks,
// healthy except for the instance STALLED, which takes three seconds and delays the following ones.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/clock.h"
#include "model/events.h"
#include "store/write/writer.h"

namespace {

using namespace stalltrace;

constexpr NodeId kNode = 7;
constexpr int64_t kStart = 1'769'827'620 * kNsPerSecond;
constexpr CommHash kCommunicator = 0x5eed;

Process rank_process(int32_t rank) {
  Process process;
  process.node_id = kNode;
  process.pid = 100 + rank;
  process.start_ns = kStart;
  process.exe = "/usr/bin/train";
  process.rank = rank;
  process.rank_source = RankSource::kEnvironment;
  process.world_size = 2;
  return process;
}

constexpr int64_t kStallNs = 3 * kNsPerSecond;

Collective all_reduce(int64_t seq, int32_t rank, int64_t stalled) {
  Collective row;
  row.event_id = make_event_id(kNode, static_cast<uint64_t>(2 * seq + rank + 1));
  row.node_id = kNode;
  const bool after_stall = stalled >= 0 && seq > stalled;
  row.timestamp_ns = kStart + seq * 40 * kNsPerMs + (after_stall ? kStallNs : 0);
  row.duration_ns = 10 * kNsPerMs + (seq == stalled ? kStallNs : 0);
  row.launch_ns = 8 * kNsPerUs;
  row.completion = Completion::kSync;
  row.seq = seq;
  row.rank = rank;
  row.rank_source = RankSource::kInit;
  row.nranks = 2;
  row.comm_id_hash = kCommunicator;
  row.pid = 100 + rank;
  row.tid = row.pid;
  row.count = 1 << 20;
  row.datatype = 7;
  row.bytes = 4 << 20;
  return row;
}

Status write(const std::string& path, int64_t collectives, int64_t stalled) {
  ST_ASSIGN(const auto writer, store::RecordingWriter::create(path));
  Node node;
  node.node_id = kNode;
  node.name = "node0";
  node.started_ns = kStart;
  writer->accept(node);
  for (const int32_t rank : {0, 1}) {
    writer->accept(rank_process(rank));
  }
  for (int64_t seq = 0; seq < collectives; ++seq) {
    writer->accept(all_reduce(seq, 0, stalled));
    writer->accept(all_reduce(seq, 1, stalled));
  }
  return writer->close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: make_recording FILE [COLLECTIVES [STALLED]]\n", stderr);
    return 2;
  }
  const Status status = write(argv[1], argc > 2 ? std::atoll(argv[2]) : 200, argc > 3 ? std::atoll(argv[3]) : -1);
  if (!status) {
    std::fprintf(stderr, "make_recording: %s\n", status.error().what.c_str());
    return 1;
  }
  return 0;
}
