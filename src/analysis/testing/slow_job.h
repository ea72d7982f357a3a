// SPDX-License-Identifier: Apache-2.0
// The small job, slow from one step on: because of losses on a link, or because a rank gets no CPU.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/testing/ring_job.h"

namespace stalltrace::analysis::small_job {

inline constexpr int kSlowFrom = 40;
inline constexpr int64_t kSlowNs = 40 * kNsPerMs;
inline constexpr uint32_t kSegment = 30'000;

/// From kSlowFrom on all transfers are slow.
inline Ending slow() {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step >= kSlowFrom) {
      call.duration_ns = kSlowNs - rank * 100 * kNsPerUs;
    }
    return true;
  };
  return ending;
}

/// Rank 1 retransmits a segment to rank 2 and is in recovery for most of each slow step.
inline MemorySource lossy_job() {
  MemorySource source;
  fill(source, slow());
  connect(source);
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    const auto add = [&](TcpEventKind kind, int64_t after_ns, int32_t state, uint32_t len) {
      TcpEvent event = event_of(1, kind, begin_of(step) + after_ns);
      event.state = state;
      event.len = len;
      source.accept(event);
    };
    add(TcpEventKind::kCongestionState, 2 * kNsPerMs, 3, 0);
    add(TcpEventKind::kRetransmit, 3 * kNsPerMs, 3, kSegment);
    add(TcpEventKind::kCongestionState, kSlowNs - kNsPerMs, 0, 0);
  }
  return source;
}

/// In each slow step one packet is dropped at one end of the link 1 -> 2, chosen by `incoming`.
inline void drop(MemorySource& source, bool incoming, const std::string& reason, uint64_t bytes = kSegment) {
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    PacketDrop row{.node_id = node_of_rank(incoming ? 2 : 1), .timestamp_ns = begin_of(step) + 2 * kNsPerMs};
    row.cookie = incoming ? kIn : kOut;
    row.incoming = incoming;
    row.reason = reason;
    row.packets = 1;
    row.bytes = bytes;
    source.accept(row);
  }
}

/// From kSlowFrom on `who` is `late_ns` late in each step, and the others wait for it.
inline Ending late(int who, int64_t late_ns) {
  Ending ending;
  ending.call = [=](int rank, int64_t step, Collective& call) {
    const int64_t now_ns = step >= kSlowFrom ? late_ns : 0;
    call.timestamp_ns += rank == who ? now_ns : 0;
    call.duration_ns = 5 * kNsPerMs + (rank == who ? 0 : now_ns);
    return true;
  };
  return ending;
}

/// Rank 1 is ready to run for `waited_ns`, while the process `by_pid` has its core.
inline WaitSpan starved(int64_t from_ns, int64_t waited_ns, int32_t by_pid, const std::string& by_name) {
  WaitSpan wait{.node_id = node_of_rank(1), .timestamp_ns = from_ns, .window_ns = waited_ns, .waited_ns = waited_ns};
  wait.kind = WaitKind::kRunnable;
  wait.count = 1;
  wait.pid = wait.tid = 11;
  wait.by_pid = by_pid;
  wait.by_name = by_name;
  wait.by_waited_ns = waited_ns;
  return wait;
}

/// A program of another user on the node of rank 1, which began before the job.
inline Competitor stranger(int32_t pid) {
  Competitor row{.node_id = node_of_rank(1), .pid = pid, .start_ns = kOriginNs - kNsPerSecond};
  row.cmdline = "python3 preprocess.py --shard 3";
  row.cgroup = "/user.slice/user-1000.slice";
  return row;
}

/// Rank 1 is 30 ms late in every step from kSlowFrom on, and always ready to run; another rank has its core.
inline MemorySource starved_job(bool throttled) {
  constexpr int64_t kLateNs = 30 * kNsPerMs;
  MemorySource source;
  fill(source, late(1, kLateNs));
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    source.accept(starved(begin_of(step), kLateNs, 12, "train"));
  }
  double us = 0;
  for (int64_t second = 0; second <= kSteps * kStepNs / kNsPerSecond; ++second) {
    source.accept(HostSample{node_of_rank(1), kOriginNs + second * kNsPerSecond, "throttled_us", "11:/pod/job", us});
    us += throttled && second >= 1 ? 700'000 : 0;
  }
  return source;
}

}  // namespace stalltrace::analysis::small_job
