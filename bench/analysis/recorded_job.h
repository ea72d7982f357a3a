// SPDX-License-Identifier: Apache-2.0
// For benchmarks: recordings as the tracer writes them, made by the recording's own writer.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "bench/must.h"
#include "store/write/writer.h"

namespace stalltrace {

/// A training job: in each step of 20 ms, every rank does 4 collectives on 2 communicators. One step in 300 takes 60 ms
/// longer, while the link from rank 0 to rank 1 recovers from loss.
class RecordedJob {
 public:
  static constexpr int64_t kCallsPerStep = 4;
  static constexpr int64_t kOthersPerStep = 16;

  RecordedJob(int32_t hosts, bool evidence) : hosts_(hosts), evidence_(evidence) {}

  /// Number of rows of one rank in one step.
  [[nodiscard]] int64_t rows_per_step() const { return kCallsPerStep + (evidence_ ? kOthersPerStep : 0); }

  /// Writes some `events` rows into `folder`, a file for each host, and names the files.
  [[nodiscard]] std::vector<std::string> write(int64_t events, const std::filesystem::path& folder) const {
    std::vector<std::string> files;
    for (int32_t host = 0; host < hosts_; ++host) {
      files.push_back((folder / fmt::format("node{}.db", host)).string());
      write_host(host, events / kRanks / rows_per_step(), *must(store::RecordingWriter::create(files.back())));
    }
    return files;
  }

 private:
  void write_host(int32_t host, int64_t steps, store::RecordingWriter& writer) const {
    Node node{.node_id = node_of(host), .name = fmt::format("node{}", host), .boot_id = fmt::format("boot{}", host)};
    node.started_ns = kStart + skew_ns(host);
    node.ended_ns = start_of(steps) + kNsPerSecond + skew_ns(host);
    writer.accept(node);
    std::vector<int32_t> ranks;
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      if (host_of(rank) == host) {
        ranks.push_back(rank);
        introduce(rank, writer);
      }
    }
    uint64_t number = 0;
    for (int64_t step = 0; step < steps; ++step) {
      for (int64_t i = 0; i < kCallsPerStep; ++i) {
        for (const int32_t rank : ranks) {
          writer.accept(call(step, i, rank, ++number));
        }
      }
      for (const int32_t rank : ranks) {
        add_loss(step, rank, number, writer);
        if (evidence_) {
          add_evidence(step, rank, number, writer);
        }
      }
      if (writer.buffered() >= kRowsPerFlush) {
        must(writer.flush());
      }
    }
    must(writer.close());
  }

  static constexpr int64_t kStart = 1'800'000'000LL * kNsPerSecond;
  static constexpr int32_t kRanks = 8;
  static constexpr size_t kRowsPerFlush = 5'000;  // the rows of a quarter of a second on a busy node
  static constexpr int64_t kStepNs = 20 * kNsPerMs;
  static constexpr int64_t kSlowEvery = 300;
  static constexpr int64_t kSlowNs = 450 * kNsPerMs;

  static NodeId node_of(int32_t host) { return static_cast<NodeId>(host + 1); }
  [[nodiscard]] int32_t host_of(int32_t rank) const { return rank * hosts_ / kRanks; }
  static int64_t skew_ns(int32_t host) { return host * 3 * kNsPerMs; }
  static bool slow(int64_t step) { return step > 0 && step % kSlowEvery == 0; }
  /// A slow step delays all later ones.
  static int64_t start_of(int64_t step) {
    return kStart + step * kStepNs + (step > 0 ? (step - 1) / kSlowEvery * kSlowNs : 0);
  }
  static int64_t noise(int64_t step, int64_t salt) {
    return static_cast<int64_t>(splitmix64_mix(static_cast<uint64_t>(step * 64 + salt)) % 400'000);
  }

  void introduce(int32_t rank, store::RecordingWriter& writer) const {
    Process process{.node_id = node_of(host_of(rank)), .pid = 1000 + rank, .exe = "/opt/train"};
    process.rank = rank;
    process.world_size = kRanks;
    writer.accept(process);
    const int32_t peer = (rank + 1) % kRanks;
    Connection row{.node_id = process.node_id, .cookie = cookie_of(rank), .pid = process.pid, .family = 2};
    row.source = {fmt::format("10.0.0.{}", rank + 1), 40000};
    row.destination = {fmt::format("10.0.0.{}", peer + 1), 50000};
    row.thread_name = "NCCL Progress 1";
    row.rank = rank;
    row.peer_rank = peer;
    writer.accept(row);
  }

  static uint64_t cookie_of(int32_t rank) { return 5'000 + static_cast<uint64_t>(rank); }

  [[nodiscard]] Collective call(int64_t step, int64_t index, int32_t rank, uint64_t number) const {
    constexpr std::array kOps{Operation::kAllReduce, Operation::kAllReduce, Operation::kAllGather,
                              Operation::kAllReduce};
    constexpr std::array<int64_t, kCallsPerStep> kCounts{6'553'600, 6'553'600, 262'144, 1'048'576};
    const auto at = static_cast<size_t>(index);
    const bool half = kOps[at] == Operation::kAllGather;  // on a communicator of half of the ranks
    const int64_t begin = start_of(step) + index * 4 * kNsPerMs;
    Collective row;
    row.node_id = node_of(host_of(rank));
    row.event_id = make_event_id(row.node_id, number);
    row.op = kOps[at];
    row.completion = Completion::kSync;
    const int64_t arrival = begin + noise(step, index * kRanks + rank);
    row.duration_ns = begin + 3 * kNsPerMs + (index == 3 && slow(step) ? kSlowNs : 0) - arrival;
    row.timestamp_ns = arrival + skew_ns(host_of(rank));
    row.called_ns = row.timestamp_ns;
    row.launch_ns = 7'000 + noise(step, 3) % 1'000;
    row.seq = half ? step : step * 3 + std::min<int64_t>(index, 2);
    row.rank = half ? rank % (kRanks / 2) : rank;
    row.rank_source = RankSource::kInit;
    row.nranks = half ? kRanks / 2 : kRanks;
    row.comm_id_hash =
        half ? 0xabcd'ef01'2345'6789 + static_cast<uint64_t>(rank / (kRanks / 2)) : 0xfedc'ba98'7654'3210;
    row.comm_ptr = 0x7f12'3456'7000 + (half ? 0x1000 : 0);
    row.pid = 1000 + rank;
    row.tid = 1000 + rank;
    row.cgroup_id = 1234;
    row.count = kCounts[at];
    row.datatype = 7;
    row.bytes = payload_bytes(row.op, kCounts[at], 4, *row.nranks);
    row.reduce_op = half ? std::nullopt : std::optional<int32_t>(0);
    row.stream = 0x55d0'c0ff'ee00;
    row.return_code = 0;
    return row;
  }

  void add_loss(int64_t step, int32_t rank, uint64_t& number, store::RecordingWriter& writer) const {
    if (rank != 0 || !slow(step)) {
      return;
    }
    TcpEvent row = tcp_event(step, rank, number);
    row.event = TcpEventKind::kCongestionState;
    for (const auto& [offset_ns, state] : {std::pair{13 * kNsPerMs, 3}, std::pair{14 * kNsPerMs + kSlowNs, 0}}) {
      row.event_id = make_event_id(row.node_id, ++number);
      row.timestamp_ns = start_of(step) + offset_ns;
      row.state = state;
      writer.accept(row);
    }
  }

  [[nodiscard]] TcpEvent tcp_event(int64_t step, int32_t rank, uint64_t& number) const {
    TcpEvent row{.node_id = node_of(host_of(rank)), .pid = 1000 + rank, .cookie = cookie_of(rank)};
    row.event_id = make_event_id(row.node_id, ++number);
    row.timestamp_ns = start_of(step) + noise(step, 11) + skew_ns(host_of(rank));
    row.rank = rank;
    row.source = {fmt::format("10.0.0.{}", rank + 1), 40000};
    row.destination = {fmt::format("10.0.0.{}", (rank + 1) % kRanks + 1), 50000};
    row.seq = static_cast<uint32_t>(step * 65'536);
    row.len = 1448;
    row.cgroup_id = 1234;
    return row;
  }

  /// 7 bursts, 7 waits, 8 samples in 5 steps and 2 retransmits without a cost.
  void add_evidence(int64_t step, int32_t rank, uint64_t& number, store::RecordingWriter& writer) const {
    const NodeId node = node_of(host_of(rank));
    const int64_t begin = start_of(step) + skew_ns(host_of(rank));
    for (int64_t i = 0; i < 7; ++i) {
      NetSpan span{.node_id = node, .timestamp_ns = begin + i * 2 * kNsPerMs + noise(step, i)};
      span.duration_ns = kNsPerMs;
      span.cookie = cookie_of(rank);
      span.pid = 1000 + rank;
      span.tid = 2000 + rank;
      span.is_send = i % 2 == 0;
      span.bytes = 13'107'200;
      span.calls = 210;
      writer.accept(span);
      WaitSpan wait{.node_id = node, .timestamp_ns = begin + i * 2 * kNsPerMs + noise(step, i + 7)};
      wait.window_ns = 2 * kNsPerMs;
      wait.waited_ns = i % 3 == 1 ? 40'000 : 1'800'000;
      wait.count = 12;
      wait.kind = i % 3 == 0 ? WaitKind::kBlocked : i % 3 == 1 ? WaitKind::kRunnable : WaitKind::kOnCpu;
      wait.pid = 1000 + rank;
      wait.tid = i % 2 == 0 ? 1000 + rank : 2000 + rank;
      wait.thread_name = i % 2 == 0 ? "train" : "NCCL Progress 1";
      if (wait.kind == WaitKind::kRunnable) {
        wait.by_pid = 77;
        wait.by_name = "kworker/3:1";
        wait.by_waited_ns = 30'000;
      }
      writer.accept(wait);
    }
    for (int64_t i = 0; i < (step % 5 < 3 ? 2 : 1); ++i) {
      writer.accept(sample(step, i, rank));
    }
    if (step % 5 < 2) {
      writer.accept(tcp_event(step, rank, number));
    }
  }

  [[nodiscard]] TcpSample sample(int64_t step, int64_t index, int32_t rank) const {
    TcpSample row{.node_id = node_of(host_of(rank)), .cookie = cookie_of(rank), .pid = 1000 + rank};
    row.timestamp_ns = start_of(step) + index * 10 * kNsPerMs + noise(step, 5) + skew_ns(host_of(rank));
    row.srtt_us = 120;
    row.cwnd = 10;
    row.mss = 1448;
    row.bytes_acked = static_cast<uint64_t>(step) * 13'107'200;
    row.bytes_received = row.bytes_acked;
    row.snd_wnd = 64'512;
    row.rcv_wnd = 65'536;
    row.busy_ns = static_cast<uint64_t>(step * kNsPerMs);
    row.tcp_state = 1;
    return row;
  }

  int32_t hosts_;
  bool evidence_;
};

}  // namespace stalltrace
