// SPDX-License-Identifier: Apache-2.0
// The ring connections of a small job, with the samples and events of links that are slow or silent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>

#include "analysis/testing/ring_job.h"

namespace stalltrace::analysis::small_job {

/// Every call from the middle on takes 400 ms; `signature` writes the flow of each rank during that time.
inline void fill_slow(
    MemorySource& source,
    const std::function<void(int rank, int64_t step, TcpSample& sender, TcpSample& receiver)>& signature,
    Library library = Library::kNccl) {
  Ending ending;
  ending.call = [library](int rank, int64_t step, Collective& call) {
    call.library = library;
    call.timestamp_ns = kOriginNs + step * kNsPerSecond + rank * 100 * kNsPerUs;
    call.duration_ns = step < kSteps / 2 ? 50 * kNsPerMs : 400 * kNsPerMs;
    return true;
  };
  fill(source, ending);
  connect(source);
  for (int64_t at = 0; at < kSteps * 20; ++at) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const int64_t time_ns = kOriginNs + at * 50 * kNsPerMs;
      TcpSample sender = sample_of(rank, kOut, time_ns);
      TcpSample receiver = sample_of(rank, kIn, time_ns);
      sender.bytes_acked = static_cast<uint64_t>(at + 1) * 100'000;
      sender.busy_ns = static_cast<uint64_t>(at) * 2 * kNsPerMs;
      signature(rank, at, sender, receiver);
      source.accept(sender);
      source.accept(receiver);
    }
  }
}

enum class KeepAlive { kNone, kPasses, kLost };

/// Rank `silent` retransmits in vain from the last call on, while its timer doubles; the segments have `len` bytes, and
/// `acked` bytes were acknowledged before. The caller adds the samples of rank `unsampled`. `launched`: calls return at
/// once, as on a device.
inline void fill_silence(MemorySource& source, const std::set<int>& silent, uint32_t len, KeepAlive keep_alive,
                         uint64_t acked = 1'000'000, int unsampled = -1, bool launched = false) {
  Ending ending = short_hang();
  const auto call = ending.call;
  ending.call = [=](int rank, int64_t step, Collective& row) {
    if (launched) {
      row.launch_ns = 20 * kNsPerUs;
    }
    return call(rank, step, row);
  };
  fill(source, ending);
  connect(source);
  uint8_t doubled = 0;
  for (int64_t time_ns = kLastArrivalNs + 100 * kNsPerMs; time_ns < kEndNs; time_ns += 500 * kNsPerMs) {
    doubled = std::min<uint8_t>(5, doubled + 1);
    for (int rank = 0; rank < kRanks; ++rank) {
      TcpSample sample = sample_of(rank, kOut, time_ns);
      TcpSample alive = sample_of(rank, kAlive, time_ns);
      if (silent.contains(rank)) {
        sample.bytes_acked = acked;
        sample.unacked_bytes = 100'000;
        sample.backoff = doubled;
        sample.ca_state = 4;
        if (keep_alive == KeepAlive::kPasses) {
          alive.bytes_acked += static_cast<uint64_t>(time_ns - kLastArrivalNs) / kNsPerSecond * 64;
        } else if (keep_alive == KeepAlive::kLost) {
          alive.unacked_bytes = 64;
          alive.backoff = doubled;
        }
      }
      if (rank != unsampled) {
        source.accept(sample);
      }
      if (keep_alive != KeepAlive::kNone) {
        source.accept(alive);
      }
    }
  }
  for (const int rank : silent) {
    TcpEvent state = event_of(rank, TcpEventKind::kCongestionState, kLastArrivalNs + 300 * kNsPerMs);
    state.state = 4;
    source.accept(state);
    for (int repeat = 0; repeat < 5; ++repeat) {
      TcpEvent segment = event_of(rank, TcpEventKind::kRetransmit, kLastArrivalNs + (300 << repeat) * kNsPerMs);
      segment.len = len;
      source.accept(segment);
    }
  }
}

}  // namespace stalltrace::analysis::small_job
