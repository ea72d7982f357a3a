// SPDX-License-Identifier: Apache-2.0
// record_seeds FOLDER: inputs of records_target.cpp: a job of NCCL with its network, MPI's requests, a group that is
// split, a process that ends in the middle of a call.
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include "capture/call_table.h"
#include "tests/fuzz/record_input.h"
#include "wire/collective.h"
#include "wire/marker.h"
#include "wire/scheduler.h"
#include "wire/tcp.h"

using namespace stalltrace;
using fuzz::RecordKind;

namespace {

uint16_t row_of(std::string_view symbol) {
  const auto table = capture::call_table();
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].symbol == symbol) {
      return static_cast<uint16_t>(i);
    }
  }
  return 0;
}

class Seed {
 public:
  template <typename Record>
  Seed& add(RecordKind kind, uint8_t who, const Record& record) {
    const auto* bytes = reinterpret_cast<const char*>(&record) + sizeof(st_header);
    return add(kind, who, std::string(bytes, sizeof record - sizeof(st_header)));
  }
  Seed& add(RecordKind kind, uint8_t who, std::string payload) {
    payload.resize(payload.find_last_not_of('\0') + 1);
    for (const size_t byte :
         {size_t(kind), size_t(who), size_t(0x40), size_t(0x10), payload.size() >> 8U, payload.size()}) {
      bytes_ += static_cast<char>(byte);
    }
    bytes_ += payload;
    return *this;
  }
  void write(const std::string& path) const { std::ofstream(path, std::ios::binary) << bytes_; }

  Seed& begin(uint8_t who, char library) {
    return add(RecordKind::kBegin, who, std::string{1, static_cast<char>(who & 0xf), library, 7});
  }
  Seed& call(uint8_t who, std::string_view symbol, st_call_entry entry, uint64_t value = 0) {
    entry.row = row_of(symbol);
    entry.comm_rank = entry.comm_rank == 0 ? -1 : entry.comm_rank;
    add(RecordKind::kCallEntry, who, entry);
    return add(
        RecordKind::kCallReturn, who,
        st_call_return{
            .comm = entry.comm, .value = value, .group_id = entry.group_id, .row = entry.row, .flags = entry.flags});
  }
  Seed& join(uint8_t who, uint64_t comm) {
    st_comm_init init{.nranks = 2, .rank = who & 0xf, .row = row_of("ncclCommInitRank"), .has_id = 1};
    std::memset(init.id, 0x5e, sizeof init.id);
    add(RecordKind::kCommInit, who, init);
    return add(RecordKind::kCallReturn, who, st_call_return{.value = comm, .row = init.row});
  }

 private:
  std::string bytes_;
};

Seed of_nccl() {
  Seed seed;
  for (const uint8_t who : {0, 1}) {
    const uint64_t comm = 0xc0 + who;
    seed.begin(who, 0).join(who, comm);
    seed.add(RecordKind::kCallStack, who,
             st_call_stack{.call_site = 9, .return_address = 0x1000, .frames = 1, .addresses = {0x1000}});
    for (uint64_t number = 0; number < 3; ++number) {
      seed.call(who, "ncclAllReduce",
                {.count = 1024,
                 .comm = comm,
                 .stream = 0x57,
                 .sequence = number,
                 .datatype = 7,
                 .root = -1,
                 .peer = -1,
                 .call_site = 9});
    }
    seed.add(RecordKind::kSync, who,
             st_sync{.stream = 0x57, .row = row_of("cudaStreamSynchronize"), .kind = ST_CALL_SYNC_STREAM});
    seed.call(who, "ncclCommDestroy", {.comm = comm});
  }
  seed.add(RecordKind::kExit, 1, st_exit{.exit_code = 9}).add(RecordKind::kRound, 0, std::string());
  return seed;
}

Seed of_groups() {
  Seed seed;
  seed.begin(0, 0).join(0, 0xc0);
  for (const char* symbol : {"ncclSend", "ncclRecv"}) {
    seed.call(0, symbol,
              {.count = 64,
               .comm = 0xc0,
               .stream = 0x57,
               .group_id = 3,
               .datatype = 7,
               .root = -1,
               .peer = 1,
               .flags = ST_CALL_IN_GROUP});
  }
  seed.call(0, "ncclGroupEnd", {.group_id = 3, .group_started_ns = 1});
  st_comm_init split{
      .parent_comm = 0xc0, .nranks = -1, .rank = -1, .color = 1, .key = 0, .row = row_of("ncclCommSplit")};
  seed.add(RecordKind::kCommInit, 0, split)
      .add(RecordKind::kCallReturn, 0, st_call_return{.comm = 0xc0, .value = 0xd0, .row = split.row});
  seed.call(0, "ncclBroadcast", {.count = 64, .comm = 0xd0, .stream = 0x58, .datatype = 7, .root = 0, .peer = -1});
  seed.add(RecordKind::kSync, 0,
           st_sync{.stream = 0x58, .event = 0xe, .row = row_of("cudaEventRecord"), .kind = ST_CALL_EVENT_RECORD});
  seed.add(
      RecordKind::kSync, 0,
      st_sync{.stream = 0x59, .event = 0xe, .row = row_of("cudaStreamWaitEvent"), .kind = ST_CALL_STREAM_WAIT_EVENT});
  seed.add(RecordKind::kSync, 0,
           st_sync{.event = 0xe, .row = row_of("cudaEventSynchronize"), .kind = ST_CALL_SYNC_EVENT});
  return seed;
}

Seed of_mpi() {
  Seed seed;
  seed.begin(0, 2);
  seed.call(0, "MPI_Iallreduce",
            {.count = 16,
             .comm = 0x44,
             .datatype = -1,
             .root = -1,
             .peer = -1,
             .element_bytes = 8,
             .comm_rank = 1,
             .comm_size = 2},
            0x99);
  seed.call(0, "MPI_Isend", {.count = 16, .comm = 0x44, .peer = 1, .element_bytes = 8, .comm_rank = 1, .comm_size = 2},
            0x98);
  seed.add(RecordKind::kRequestsDone, 0,
           st_requests_done{.row = row_of("MPI_Waitall"),
                            .kind = ST_CALL_WAIT_ALL_REQUESTS,
                            .done = 3,
                            .count = 2,
                            .handles = {0x99, 0x98}});
  seed.call(0, "MPI_Barrier", {.comm = 0x44, .comm_rank = 1, .comm_size = 2});
  seed.add(RecordKind::kExitLost, 0, std::string());
  return seed;
}

Seed of_network() {
  Seed seed;
  seed.begin(0, 0).join(0, 0xc0);
  const st_tuple tuple{.source = {10, 0, 0, 1},
                       .destination = {10, 0, 0, 2},
                       .source_port = 40000,
                       .destination_port = 50000,
                       .family = 2};
  seed.add(RecordKind::kSocket, 0, st_socket_seen{.cookie = 77, .tuple = tuple, .thread_name = "NCCL Socket"});
  seed.add(RecordKind::kTcpEvent, 0,
           st_tcp_event{.cookie = 77, .tuple = tuple, .length = 1448, .kind = ST_TCP_RETRANSMIT});
  for (uint64_t i = 1; i < 4; ++i) {
    seed.add(RecordKind::kNetSpan, 0,
             st_net_span{.cookie = 77, .end_ns = 1000, .bytes = 4096 * i, .calls = 4, .is_send = 1});
    st_step_mark mark{};
    mark.step = {.size = sizeof mark.step,
                 .version = 1,
                 .comm_hash = 0xabc,
                 .own = {i, 4096 * i},
                 .all = {i, 4096 * i},
                 .alone_since_ns = 1,
                 .rank = 0,
                 .ranks = 2,
                 .peer = 1,
                 .is_send = 1};
    mark.last = {.cookie = 77, .moved = 4096 * i, .time_ns = 2};
    seed.add(RecordKind::kStepMark, 0, mark);
    seed.add(RecordKind::kTcpSample, 0,
             st_tcp_sample{.cookie = 77,
                           .metrics = {.bytes_acked = 4096 * i, .srtt_us = 100, .cwnd = 10, .busy_jiffies = 3}});
    seed.add(RecordKind::kListing, 0,
             st_socket_listing{.cookie = 77,
                               .tuple = tuple,
                               .fd = 5,
                               .metrics = {.bytes_acked = 4096 * i, .srtt_us = 100, .total_retrans = 2}});
  }
  seed.add(RecordKind::kWait, 0,
           st_wait{.end_ns = 5000, .waited_ns = 4000, .count = 1, .kind = ST_WAIT_BLOCKED, .thread_name = "rank"});
  seed.add(RecordKind::kException, 0, std::string("\0\0\0\0\0\0\0\0\1\0\0\0\x0b\0\0\0ValueError", 26));
  seed.add(RecordKind::kTcpEvent, 0, st_tcp_event{.cookie = 77, .tuple = tuple, .kind = ST_TCP_CLOSE});
  seed.add(RecordKind::kRound, 0, std::string());
  return seed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/";
  of_nccl().write(folder + "nccl");
  of_groups().write(folder + "groups");
  of_mpi().write(folder + "mpi");
  of_network().write(folder + "network");
  return 0;
}
