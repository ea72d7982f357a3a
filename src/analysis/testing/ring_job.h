// SPDX-License-Identifier: Apache-2.0
// The ring connections of a small job, with samples and events, for verdicts about the network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/testing/small_job.h"

namespace stalltrace::analysis::small_job {

inline constexpr int64_t kHangNsReported = 20 * kNsPerSecond;
inline constexpr int64_t kEndNs = kLastArrivalNs + kHangNsReported;
inline constexpr uint32_t kMss = 1448;
inline constexpr uint64_t kOut = 1;    // cookie of each rank's connection to the next rank
inline constexpr uint64_t kIn = 2;     // cookie of the connection from the previous rank
inline constexpr uint64_t kAlive = 3;  // cookie of a keep-alive to the next rank

/// The ring's connections, two ends at each rank, each with a parallel keep-alive. Rank 2 closes its end of the
/// connection from rank 1 at `closed_ns`.
/// Rank 2 closes its end of the connection from rank 1 at `closed_ns`, rank 1 its own end at `given_up_ns`.
inline void connect(MemorySource& source, std::optional<int64_t> closed_ns = std::nullopt,
                    std::optional<int64_t> given_up_ns = std::nullopt) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const int next = (rank + 1) % kRanks;
    const int previous = (rank + kRanks - 1) % kRanks;
    const auto end = [&](uint64_t cookie, int peer, bool dials, uint16_t port, const char* thread) {
      Connection row{.node_id = node_of_rank(rank), .cookie = cookie, .pid = 10 + rank, .family = 2};
      const auto address = [](int who) { return "10.77.0." + std::to_string(who + 1); };
      const auto client = static_cast<uint16_t>(port + 10'000 + (dials ? rank : peer));
      row.source = {address(rank), dials ? client : port};
      row.destination = {address(peer), dials ? port : client};
      row.opened_ns = kOriginNs;
      row.thread_name = thread;
      row.closed_ns = rank == 2 && cookie == kIn ? closed_ns : rank == 1 && cookie == kOut ? given_up_ns : std::nullopt;
      source.accept(row);
    };
    end(kOut, next, true, 50'000, "NCCL Progress 0");
    end(kIn, previous, false, 50'000, "NCCL Progress 0");
    end(kAlive, next, true, 40'000, "NCCL RAS");
    end(kAlive + 1, previous, false, 40'000, "NCCL RAS");
  }
}

/// The recorder knows whose data a rank's connection carries.
inline void attribute(MemorySource& source, int rank, uint64_t cookie, CommHash communicator) {
  const Result<std::vector<Connection>> rows = source.connections();
  for (Connection row : *rows) {
    if (row.node_id == node_of_rank(rank) && row.cookie == cookie) {
      row.comm_id_hash = communicator;
      source.accept(row);
    }
  }
}

/// Another communicator of all ranks, whose calls are healthy: at the end of each step but the last.
inline void add_communicator(MemorySource& source, CommHash communicator) {
  for (int64_t step = 0; step + 1 < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Collective call = call_of(rank, step, communicator);
      call.timestamp_ns += 42 * kNsPerMs;
      source.accept(call);
    }
  }
}

inline TcpSample sample_of(int rank, uint64_t cookie, int64_t time_ns) {
  TcpSample sample{.node_id = node_of_rank(rank), .timestamp_ns = time_ns, .cookie = cookie};
  sample.pid = 10 + rank;
  sample.mss = kMss;
  sample.bytes_acked = 1'000'000;
  return sample;
}

/// Its id follows from its rank, kind and time, in us: a test gives a second one of the same us another id.
inline TcpEvent event_of(int rank, TcpEventKind kind, int64_t time_ns) {
  const auto since_us = static_cast<uint64_t>((time_ns - kOriginNs) / kNsPerUs);
  TcpEvent event{.event_id = make_event_id(node_of_rank(rank), (since_us << 4) + static_cast<uint64_t>(kind))};
  event.node_id = node_of_rank(rank);
  event.timestamp_ns = time_ns;
  event.event = kind;
  event.pid = 10 + rank;
  event.cookie = kOut;
  return event;
}

/// All ranks are inside the last call until kEndNs.
inline Ending short_hang() {
  Ending ending = hang();
  ending.node = [](int, Node& node) { node.ended_ns = kEndNs; };
  return ending;
}

}  // namespace stalltrace::analysis::small_job
