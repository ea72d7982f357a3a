// SPDX-License-Identifier: Apache-2.0
// What to do differs by library: each names its own variables and calls, and Gloo and MPI have no devices to look at.
#include <gmock/gmock.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/network_job.h"
#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;
using ::testing::HasSubstr;
using ::testing::Not;

Ending of_library(Library library, Ending ending) {
  const auto call = ending.call;
  ending.call = [=](int rank, int64_t step, Collective& row) {
    row.library = library;
    return !call || call(rank, step, row);
  };
  return ending;
}

Finding silent_hang(Library library) {
  MemorySource source;
  fill(source, of_library(library, short_hang()));
  connect(source);
  for (int64_t second = -1; second < 20; ++second) {
    for (int rank = 0; rank < kRanks; ++rank) {
      source.accept(sample_of(rank, kOut, kLastArrivalNs + second * kNsPerSecond));
    }
  }
  return only(source);
}

Finding unexplained(Library library) {
  MemorySource source;
  fill(source, of_library(library, slow()));
  connect(source);
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    source.accept(event_of(0, TcpEventKind::kRetransmit, begin_of(step)));
    source.accept(sample_of(0, kOut, begin_of(step)));
    source.accept(starved(begin_of(step), kNsPerMs, 0, ""));
  }
  return only(source);
}

/// Three ranks set up their communicator for 20 s; rank 2 tries to reach `target`, in vain.
Finding unreachable(Library library, const std::string& target) {
  MemorySource source;
  Ending ending;
  ending.node = [](int, Node& node) { node.ended_ns = kOriginNs + 20 * kNsPerSecond; };
  ending.process = [](int, Process& process) { process.world_size = kRanks; };
  describe(source, ending);
  for (const int rank : {0, 1, 3}) {
    Collective call = call_of(rank, 0);
    call.library = library;
    call.op = Operation::kCommInitRank;
    call.seq.reset();
    leave_open(call);
    source.accept(call);
  }
  for (int attempt = 0; attempt < 8; ++attempt) {
    TcpEvent event = event_of(2, TcpEventKind::kConnectFailed, kOriginNs + (attempt + 1) * kNsPerSecond);
    event.destination = {target, 29500};
    event.cookie = 2;
    event.state = 111;
    source.accept(event);
  }
  return only(source);
}

/// Ranks 0 and 1 send to each other first, and neither receives.
Finding both_send(Library library) {
  MemorySource source;
  fill(source, of_library(library, {}));
  for (const int rank : {0, 1}) {
    Communicator row{.node_id = node_of_rank(rank), .pid = 10 + rank, .comm_ptr = kHash};
    row.comm_id_hash = kHash;
    row.rank = rank;
    row.nranks = kRanks;
    source.accept(row);
    Collective call = call_of(rank, kSteps);
    call.library = library;
    call.event_id = make_event_id(node_of_rank(rank), 2'000'001);
    call.op = Operation::kSend;
    call.seq = 0;
    call.peer = 1 - rank;
    call.timestamp_ns = kLastArrivalNs + kNsPerSecond;
    leave_open(call);
    source.accept(call);
  }
  return only(source);
}

/// Rank 2 does not read what rank 1 sends.
Finding unread(Library library) {
  MemorySource source;
  const auto signature = [](int rank, int64_t at, TcpSample& sender, TcpSample& receiver) {
    if (rank == 0 || rank == 1) {
      sender.busy_ns = sender.receiver_limited_ns = static_cast<uint64_t>(at) * 50 * kNsPerMs;
    }
    receiver.unread_bytes = rank == 1 || rank == 2 ? 60'000 : 0;
  };
  fill_slow(source, signature, library);
  return only(source);
}

void expect_advice(Library library, const std::string& name) {
  const Finding silent = silent_hang(library);
  EXPECT_EQ(silent.cause, Cause::kUnknown);
  expect_golden_text("advice: no data move, " + name, silent);
  const Finding slow_job = unexplained(library);
  EXPECT_EQ(slow_job.cause, Cause::kUnknown);
  expect_golden_text("advice: all evidence, " + name, slow_job);
  expect_golden_text("advice: refused, " + name, unreachable(library, "10.77.0.1"));
  expect_golden_text("advice: loopback, " + name, unreachable(library, "127.0.0.1"));
  const Finding sends = both_send(library);
  EXPECT_EQ(sends.cause, Cause::kMissingCollective);
  expect_golden_text("advice: both send, " + name, sends);
  const Finding slow_reader = unread(library);
  EXPECT_EQ(slow_reader.cause, Cause::kSlowReceiver);
  expect_golden_text("advice: unread data, " + name, slow_reader);
  for (const Finding& finding :
       {silent, slow_job, unreachable(library, "10.77.0.1"), unreachable(library, "127.0.0.1"), sends, slow_reader}) {
    if (library != Library::kNccl) {
      EXPECT_THAT(finding.remedy, Not(HasSubstr("NCCL")));
      EXPECT_THAT(finding.remedy, Not(HasSubstr("PCIe")));
      EXPECT_THAT(finding.remedy, Not(HasSubstr("NVLink")));
      EXPECT_THAT(finding.remedy, Not(HasSubstr("GPU")));
      EXPECT_THAT(finding.remedy, Not(HasSubstr("NCCL_")));
      EXPECT_THAT(finding.remedy, Not(HasSubstr("ncclGroup")));
    }
  }
}

TEST(LibraryAdvice, OfNccl) { expect_advice(Library::kNccl, "NCCL"); }
TEST(LibraryAdvice, OfMpi) { expect_advice(Library::kMpi, "MPI"); }
TEST(LibraryAdvice, OfGloo) { expect_advice(Library::kGloo, "Gloo"); }

}  // namespace
}  // namespace stalltrace::analysis
