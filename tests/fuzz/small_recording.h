// SPDX-License-Identifier: Apache-2.0
// A valid recording, for targets whose input is what is asked of it.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "model/events.h"
#include "store/write/writer.h"
#include "tests/fuzz/rows.h"

namespace stalltrace::fuzz {

/// Three ranks with a late one.
inline void write_small_recording(const std::string& path) {
  constexpr int64_t kStart = 1'769'827'620 * kNsPerSecond;
  constexpr int kRanks = 3;
  constexpr int kCalls = 60;
  auto writer = store::RecordingWriter::create(path);
  require(writer.has_value());
  Node node{.node_id = 5, .name = "node5", .boot_id = "boot"};
  node.started_ns = kStart;
  (*writer)->accept(node);
  for (int seq = 0; seq < kCalls; ++seq) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Collective row{.event_id = make_event_id(5, static_cast<uint64_t>(seq * kRanks + rank + 1)), .node_id = 5};
      row.timestamp_ns = kStart + seq * 40 * kNsPerMs + (rank == 1 && seq > 30 ? 30 * kNsPerMs : 0);
      row.duration_ns = kStart + seq * 40 * kNsPerMs + 35 * kNsPerMs - row.timestamp_ns;
      row.completion = Completion::kSync;
      row.seq = seq;
      row.rank = rank;
      row.nranks = kRanks;
      row.comm_id_hash = 0x5eed;
      row.pid = row.tid = 100 + rank;
      row.bytes = 4 << 20;
      (*writer)->accept(row);
    }
  }
  require((*writer)->close().has_value());
}

}  // namespace stalltrace::fuzz
