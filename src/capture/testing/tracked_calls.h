// SPDX-License-Identifier: Apache-2.0
// Records of one thread's calls as the BPF programs send them, and the collective tracker's output.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "capture/call_table.h"
#include "capture/decode/collective/collective_tracker.h"
#include "model/memory_source.h"

namespace stalltrace::capture {

/// Records of any library's calls, by function name.
class TrackedCalls : public testing::Test {
 protected:
  static constexpr NodeId kNode = 7;
  static constexpr int64_t kOffset = 1'000'000'000'000;
  static constexpr int32_t kPid = 4711;
  static constexpr uint32_t kTid = 4712;

  static uint16_t row_of(std::string_view symbol) {
    const auto table = call_table();
    for (size_t row = 0; row < table.size(); ++row) {
      if (table[row].symbol == symbol) {
        return static_cast<uint16_t>(row);
      }
    }
    ADD_FAILURE() << symbol;
    return 0;
  }
  static int64_t utc(uint64_t monotonic_ns) { return static_cast<int64_t>(monotonic_ns) + kOffset; }

  static st_call_entry entry_of(std::string_view symbol, uint64_t time_ns, uint64_t sequence) {
    st_call_entry record{};
    record.header = header_of(ST_RECORD_CALL_ENTRY, time_ns);
    record.row = row_of(symbol);
    record.sequence = sequence;
    record.datatype = record.reduce_op = record.root = record.peer = record.comm_rank = record.comm_size = -1;
    record.last_net_ns = time_ns;  // bytes are moving, so there is no silence
    return record;
  }
  static st_call_return return_of(std::string_view symbol, uint64_t entry_ns, uint64_t time_ns) {
    st_call_return record{};
    record.header = header_of(ST_RECORD_CALL_RETURN, time_ns);
    record.row = row_of(symbol);
    record.entry_ns = entry_ns;
    return record;
  }
  static st_sync sync_of(std::string_view symbol, uint64_t entry_ns, uint64_t time_ns) {
    st_sync record{};
    record.header = header_of(ST_RECORD_SYNC, time_ns);
    record.entry_ns = entry_ns;
    record.row = row_of(symbol);
    record.kind = call_table()[record.row].spec.kind;
    return record;
  }
  static st_comm_init init_of(std::string_view symbol, uint64_t time_ns) {
    st_comm_init record{};
    record.header = header_of(ST_RECORD_COMM_INIT, time_ns);
    record.row = row_of(symbol);
    record.nranks = record.rank = record.color = -1;
    return record;
  }

  /// The output: each call as last reported.
  std::vector<Collective> rows() {
    std::vector<Collective> result;
    EXPECT_TRUE(sink_.collectives({}, [&](const Collective& row) { result.push_back(row); }));
    return result;
  }

  MemorySource sink_;
  EventIds ids_{kNode};
  ProcessRegistry processes_{sink_};
  UserShares shares_;
  CollectiveTracker tracker_{ids_, processes_, shares_, sink_, kOffset};

 private:
  static st_header header_of(st_record_type type, uint64_t time_ns) {
    return {.type = static_cast<uint16_t>(type),
            .version = ST_WIRE_VERSION,
            .time_ns = time_ns,
            .tgid = static_cast<uint32_t>(kPid),
            .tid = kTid};
  }
};

/// Calls of one NCCL rank, 256 elements each, on one communicator and one stream.
class CollectiveTrackerTest : public TrackedCalls {
 protected:
  static constexpr uint64_t kComm = 0xc0113;
  static constexpr uint64_t kStream = 0x57;
  static constexpr uint64_t kMs = 1'000'000;

  static st_call_entry entry(std::string_view symbol, uint64_t time_ns, uint64_t sequence = 0) {
    st_call_entry record = entry_of(symbol, time_ns, sequence);
    record.comm = kComm;
    record.stream = kStream;
    record.count = 256;
    record.datatype = 7;
    return record;
  }
  static st_call_return returned(std::string_view symbol, uint64_t entry_ns, uint64_t time_ns, int32_t code = 0) {
    st_call_return record = return_of(symbol, entry_ns, time_ns);
    record.comm = kComm;
    record.return_code = code;
    return record;
  }
  static st_sync synced(std::string_view symbol, uint64_t entry_ns, uint64_t time_ns) {
    st_sync record = sync_of(symbol, entry_ns, time_ns);
    record.stream = kStream;
    return record;
  }
  static st_comm_init init(std::string_view symbol, uint64_t time_ns, int32_t nranks, int32_t rank) {
    st_comm_init record = init_of(symbol, time_ns);
    record.nranks = nranks;
    record.rank = rank;
    record.has_id = 1;
    for (size_t i = 0; i < sizeof record.id; ++i) {
      record.id[i] = static_cast<uint8_t>(i + 1);
    }
    return record;
  }

  /// Launches an asynchronous call.
  void launch(std::string_view symbol, uint64_t at_ns, uint64_t sequence = 0, uint64_t stream = kStream) {
    st_call_entry record = entry(symbol, at_ns, sequence);
    record.stream = stream;
    tracker_.on_entry(record);
    tracker_.on_return(returned(symbol, at_ns, at_ns + 5000));
  }
  void make_comm(uint64_t at_ns, int32_t nranks, int32_t rank, uint64_t comm = kComm) {
    tracker_.on_comm_init(init("ncclCommInitRank", at_ns, nranks, rank));
    st_call_return record = returned("ncclCommInitRank", at_ns, at_ns + 10);
    record.comm = 0;
    record.value = comm;
    tracker_.on_return(record);
  }

  Collective only(Operation op) {
    Collective result;
    int found = 0;
    for (const Collective& row : rows()) {
      if (row.op == op) {
        result = row;
        ++found;
      }
    }
    EXPECT_EQ(found, 1) << to_text(op);
    return result;
  }
  std::vector<Communicator> communicators() { return *sink_.communicators(); }
  Communicator last_comm() {
    const auto all = communicators();
    return all.empty() ? Communicator{} : all.back();
  }
};

}  // namespace stalltrace::capture
