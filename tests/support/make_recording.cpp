// SPDX-License-Identifier: Apache-2.0
// make_recording FILE [COLLECTIVES [STALLED [evidence]]]: a small recording for tests of the command line: one node,
// two ranks, healthy except for the instance STALLED, which takes three seconds and delays the following ones. With
// `evidence` each call has rows of the other tables, too.
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

/// What goes on while a call lasts.
void add_evidence(const Collective& call, store::RecordingWriter& writer) {
  const auto cookie = static_cast<uint64_t>(call.pid);
  const int64_t time = call.timestamp_ns;
  TcpSample sample{.node_id = kNode, .timestamp_ns = time, .cookie = cookie, .pid = call.pid};
  sample.cwnd = 10;
  sample.srtt_us = call.seq == 0 ? 0 : 120;
  writer.accept(sample);
  writer.accept(NetSpan{kNode, time, kNsPerMs, cookie, call.pid, call.tid, *call.seq % 2 == 0, 65'536, 3});
  WaitSpan wait{.node_id = kNode, .timestamp_ns = time, .window_ns = 2 * kNsPerMs, .waited_ns = kNsPerMs};
  wait.pid = wait.tid = call.pid;
  wait.by_name = "=stress\"";
  wait.by_pid = 9;
  writer.accept(wait);
  ProxyStep step{.node_id = kNode, .timestamp_ns = time, .duration_ns = kNsPerMs, .collective_id = call.event_id};
  step.pid = call.pid;
  step.peer = 1 - *call.rank;
  writer.accept(step);
  writer.accept(HostSample{kNode, time, "pressure_cpu_some_us", "", 0.5});
  TcpEvent event{.event_id = call.event_id + 1'000'000, .node_id = kNode, .timestamp_ns = time};
  event.pid = call.pid;
  event.cookie = cookie;
  event.len = 1448;
  writer.accept(event);
}

void add_connection(int32_t rank, store::RecordingWriter& writer) {
  Connection row{.node_id = kNode, .cookie = static_cast<uint64_t>(100 + rank), .pid = 100 + rank, .family = 2};
  row.source = {"10.0.0.1", 40000};
  row.destination = {"10.0.0.2", 50000};
  row.opened_ns = kStart;
  writer.accept(row);
}

Status write(const std::string& path, int64_t collectives, int64_t stalled, bool evidence) {
  ST_ASSIGN(const auto writer, store::RecordingWriter::create(path));
  Node node;
  node.node_id = kNode;
  node.name = "node0";
  node.started_ns = kStart;
  writer->accept(node);
  for (const int32_t rank : {0, 1}) {
    writer->accept(rank_process(rank));
    if (evidence) {
      add_connection(rank, *writer);
    }
  }
  for (int64_t seq = 0; seq < collectives; ++seq) {
    for (const int32_t rank : {0, 1}) {
      const Collective call = all_reduce(seq, rank, stalled);
      writer->accept(call);
      if (evidence) {
        add_evidence(call, *writer);
      }
    }
  }
  return writer->close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: make_recording FILE [COLLECTIVES [STALLED [evidence]]]\n", stderr);
    return 2;
  }
  const Status status =
      write(argv[1], argc > 2 ? std::atoll(argv[2]) : 200, argc > 3 ? std::atoll(argv[3]) : -1, argc > 4);
  if (!status) {
    std::fprintf(stderr, "make_recording: %s\n", status.error().what.c_str());
    return 1;
  }
  return 0;
}
