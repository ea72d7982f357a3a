// SPDX-License-Identifier: Apache-2.0
// Calls of one rank as the probes and as the profiler file show them, and what CallPairing makes of both.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "blackbox/pairing/call_pairing.h"
#include "model/memory_source.h"

namespace stalltrace::blackbox {

class Pairing : public ::testing::Test {
 protected:
  static constexpr int64_t kBegin = 1'800'000'000LL * kNsPerSecond;
  static constexpr int32_t kPid = 70;
  static constexpr int32_t kTid = 71;
  static constexpr uint64_t kPointer = 0xc0;
  static constexpr uint64_t kSerial = 1;
  static constexpr CommHash kIdHash = 0x1d;
  static constexpr CommHash kNcclHash = 0xabc;

  /// A communicator: the probes saw its creation, or only its calls.
  void begin(bool made_while_tracing) { begin(made_while_tracing, pairing_); }
  void begin(bool made_while_tracing, CallPairing& pairing) {
    Communicator probe{.node_id = 5, .pid = kPid, .comm_ptr = kPointer, .created_ns = kBegin};
    if (made_while_tracing) {
      probe.comm_id_hash = kIdHash;
      probe.nccl_comm_hash = kNcclHash;
      probe.rank = 3;
      probe.nranks = 4;
      probe.rank_source = RankSource::kInit;
    }
    hash_ = probe.comm_id_hash;
    pairing.accept(probe);
    Communicator file_row{.node_id = 5, .pid = kPid, .comm_ptr = kSerial};
    file_row.comm_id_hash = file_row.nccl_comm_hash = kNcclHash;
    file_row.rank = 3;
    file_row.nranks = 4;
    file_row.rank_source = RankSource::kPlugin;
    file_row.created_ns = kBegin - kNsPerSecond;
    pairing.communicator(file_row);
  }
  /// Calls take 20 us to launch, 10 ms apart.
  Collective probe(int64_t number, bool returned = true) {
    Collective row;
    row.event_id = make_event_id(5, 1000 + static_cast<uint64_t>(number));
    row.node_id = 5;
    row.timestamp_ns = row.called_ns = kBegin + number * 10 * kNsPerMs;
    if (returned) {
      row.launch_ns = 20 * kNsPerUs;
    }
    row.seq = number;
    row.comm_ptr = kPointer;
    row.comm_id_hash = hash_;
    row.pid = kPid;
    row.tid = kTid;
    row.count = 100;
    row.datatype = 7;
    return row;
  }
  static ProfilerCall profiled(int64_t number, std::optional<int64_t> duration_ns = 5 * kNsPerMs) {
    ProfilerCall call{.id = 50 + static_cast<uint64_t>(number)};
    Collective& row = call.row;
    row.node_id = 5;
    row.timestamp_ns = row.called_ns = kBegin + number * 10 * kNsPerMs + 8 * kNsPerUs;
    row.launch_ns = 4 * kNsPerUs;
    row.duration_ns = duration_ns;
    row.completion = duration_ns ? Completion::kProfiler : Completion::kOpen;
    row.seq = number;
    row.comm_ptr = kSerial;
    row.comm_id_hash = kNcclHash;
    row.rank = 3;
    row.nranks = 4;
    row.rank_source = RankSource::kPlugin;
    row.pid = kPid;
    row.tid = kTid;
    row.count = 100;
    row.datatype = 7;
    return call;
  }
  /// Moves the row to the time of call `number` at `rate` calls per second.
  static Collective at_rate(Collective row, int64_t number, int64_t rate) {
    const int64_t before_ns = row.timestamp_ns - (kBegin + number * 10 * kNsPerMs);
    row.timestamp_ns = row.called_ns = kBegin + number * (kNsPerSecond / rate) + before_ns;
    return row;
  }
  std::vector<Collective> rows() {
    std::vector<Collective> rows;
    EXPECT_TRUE(rows_.collectives({}, [&](const Collective& row) { rows.push_back(row); }));
    return rows;
  }

  /// How many steps name this collective; 0: no collective.
  size_t steps_of(EventId collective) {
    size_t count = 0;
    EXPECT_TRUE(rows_.proxy_steps({}, [&](const ProxyStep& row) { count += row.collective_id == collective ? 1 : 0; }));
    return count;
  }

  MemorySource rows_;
  EventIds ids_{5};
  CallPairing pairing_{ids_, rows_};
  CommHash hash_ = 0;
};

}  // namespace stalltrace::blackbox
