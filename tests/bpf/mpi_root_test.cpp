// SPDX-License-Identifier: Apache-2.0
// Real MPI: a job of two ranks on the distribution's OpenMPI, whose handles are pointers, and on its MPICH, whose
// handles are ints.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "base/process/command.h"
#include "capture/decode/collective/requests_done.h"
#include "capture/discover/elf_symbols.h"
#include "capture/kernel/bpf_programs.h"
#include "support.h"
#include "wire/collective.h"

namespace stalltrace::capture {
namespace {

using testing::Optional;

struct Mpi {
  std::string name;
  std::vector<std::string> launcher;
};

const std::vector<Mpi> kLibraries{
    {"openmpi",
     {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "tcp,self", "--mca", "pml", "ob1",
      "--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo"}},
    {"mpich", {"mpirun.mpich"}},
};

/// Runs the job to its end; returns pids by rank.
std::map<int32_t, int32_t> run_job(const Mpi& library) {
  std::vector<std::string> argv = library.launcher;
  argv.insert(argv.end(), {"-n", "2", standin("standin_" + library.name + "_job")});
  const auto output = run_and_capture({.argv = argv}, std::chrono::seconds(60));
  EXPECT_TRUE(output && output->status.success()) << (output ? output->err : output.error().what);
  std::map<int32_t, int32_t> pids;
  std::istringstream lines(output ? output->out : "");
  for (int32_t pid = 0, rank = 0; lines >> pid >> rank;) {
    pids[rank] = pid;
  }
  return pids;
}

struct ExpectedMpiCall {
  Operation op;
  std::optional<int64_t> count;
  int64_t bytes;
  std::optional<int32_t> root;
  std::optional<int32_t> peer;
  bool blocking;
};

/// The calls of the job (tests/bpf/standin/mpi_job.c) as `rank` of 2.
std::vector<ExpectedMpiCall> expected_calls(int32_t rank) {
  constexpr std::nullopt_t no = std::nullopt;
  const int32_t other = 1 - rank;
  std::vector<ExpectedMpiCall> calls{
      {Operation::kAllReduce, 101, 404, no, no, true},
      {Operation::kReduce, 102, 408, 1, no, true},
      {Operation::kBroadcast, 103, 103, 1, no, true},
      {Operation::kAllGather, 104, 832, no, no, true},
      {Operation::kGather, 105, 420, 1, no, true},
      {Operation::kScatter, 106, 848, 1, no, true},
      {Operation::kAllToAll, 107, 856, no, no, true},
      {Operation::kReduceScatter, 108, 864, no, no, true},
      {Operation::kBarrier, no, 0, no, no, true},
      {rank == 0 ? Operation::kSend : Operation::kRecv, 109, 872, no, other, true},
      {Operation::kSend, 110, 440, no, other, true},
      {Operation::kAllReduce, 111, 444, no, no, false},
      {Operation::kSend, 112, 448, no, other, false},
      {Operation::kRecv, 113, 452, no, other, false},
      {Operation::kBarrier, no, 0, no, no, false},
      {Operation::kAllReduce, 114, 456, no, no, false},
  };
  for (int64_t count = 120; count <= 128; ++count) {  // one MPI_Waitall ends them all
    calls.push_back({Operation::kAllReduce, count, 4 * count, no, no, false});
  }
  calls.push_back({Operation::kAllReduce, 115, 460, no, no, true});
  return calls;
}

void expect_arguments(const Collective& row, const ExpectedMpiCall& expected) {
  EXPECT_EQ(row.library, Library::kMpi);
  EXPECT_EQ(row.op, expected.op);
  EXPECT_EQ(row.count, expected.count);
  EXPECT_EQ(row.bytes, expected.bytes);
  EXPECT_EQ(row.root, expected.root);
  EXPECT_EQ(row.peer, expected.peer);
}

void expect_completion(const Collective& row, bool blocking) {
  EXPECT_THAT(row.return_code, Optional(0));
  EXPECT_TRUE(row.duration_ns);
  if (blocking) {
    EXPECT_EQ(row.completion, Completion::kCall);
    EXPECT_EQ(row.duration_ns, row.launch_ns);
  } else {
    EXPECT_TRUE(row.completion == Completion::kSync || row.completion == Completion::kNetwork);
    EXPECT_GE(row.duration_ns.value_or(0), row.launch_ns.value_or(0));
  }
}

/// Collectives are numbered for each communicator, transfers between two ranks are not.
void expect_sequence_numbers(const std::vector<Collective>& rows) {
  std::map<uint64_t, int64_t> next;
  for (const Collective& row : rows) {
    if (!row.peer) {
      EXPECT_THAT(row.seq, Optional(next[row.comm_ptr]++));
    }
  }
}

/// All calls but the last are on MPI_COMM_WORLD; the key of the split before the last one reverses the ranks.
void expect_communicators(const std::vector<Collective>& rows, int32_t rank) {
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    EXPECT_THAT(rows[i].rank, Optional(rank));
    EXPECT_THAT(rows[i].nranks, Optional(2));
  }
  EXPECT_THAT(rows.back().rank, Optional(1 - rank));
  EXPECT_NE(rows.back().comm_ptr, rows.front().comm_ptr);
}

/// No rank has the sum before the last one has contributed.
void expect_end_after_last_arrival(const std::vector<Collective>& ranks) {
  ASSERT_EQ(ranks.size(), 2U);
  const int64_t last_arrival_ns = std::max(ranks[0].timestamp_ns, ranks[1].timestamp_ns);
  for (const Collective& call : ranks) {
    EXPECT_GE(call.timestamp_ns + call.duration_ns.value_or(0), last_arrival_ns);
  }
}

class MpiRoot : public testing::TestWithParam<Mpi> {
 protected:
  void SetUp() override { ST_NEED_ROOT(); }

  static void expect_end_of_world(Trace& trace, pid_t pid, const Collective& in_world, int32_t rank) {
    const auto ends = trace.calls(pid, Operation::kCommDestroy);
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_EQ(ends[0].completion, Completion::kCall);
    EXPECT_EQ(ends[0].comm_ptr, in_world.comm_ptr);
    EXPECT_THAT(ends[0].rank, Optional(rank));
  }
  static void expect_process(const Process& process, int32_t rank) {
    EXPECT_THAT(process.rank, Optional(rank));
    EXPECT_THAT(process.world_size, Optional(2));
  }
};

TEST_P(MpiRoot, EveryCallOfARealJob) {
  Trace trace({.libraries = {}});
  const auto pids = run_job(GetParam());
  trace.stop();
  ASSERT_EQ(pids.size(), 2U);
  std::set<CommHash> worlds;
  std::map<int64_t, std::vector<Collective>> asynchronous;  // by count
  for (const auto& [rank, pid] : pids) {
    SCOPED_TRACE(rank);
    const std::vector<ExpectedMpiCall> expected = expected_calls(rank);
    std::vector<Collective> rows = trace.calls(pid);
    std::erase_if(rows, [](const Collective& row) { return !moves_data(row.op); });
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(i);
      expect_arguments(rows[i], expected[i]);
      expect_completion(rows[i], expected[i].blocking);
      if (!expected[i].blocking && rows[i].op == Operation::kAllReduce) {
        asynchronous[*rows[i].count].push_back(rows[i]);
      }
    }
    expect_sequence_numbers(rows);
    expect_communicators(rows, rank);
    expect_end_of_world(trace, pid, rows.front(), rank);
    expect_process(trace.process(pid), rank);
    worlds.insert(rows.front().comm_id_hash);
  }
  EXPECT_EQ(worlds.size(), 1U);
  EXPECT_FALSE(worlds.contains(0));
  EXPECT_EQ(asynchronous.size(), 11U);
  for (const auto& [count, calls] : asynchronous) {
    SCOPED_TRACE(count);
    expect_end_after_last_arrival(calls);
  }
}

/// The library that the job is linked with.
std::string library_of(const Mpi& library) {
  std::istringstream lines(run_tool({"ldd", standin("standin_" + library.name + "_job")}));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("libmpi") != std::string::npos) {
      const size_t path = line.find('/');
      return line.substr(path, line.find(' ', path) - path);
    }
  }
  return {};
}

/// Polls that find nothing, or only requests that were done before, send nothing: each request is reported once, when
/// it is done.
TEST_P(MpiRoot, ARequestIsReportedOnceHoweverOftenItIsPolled) {
  constexpr size_t kRequests = 14;
  auto kernel = BpfPrograms::load(kernel_options());
  ASSERT_TRUE(kernel) << kernel.error().what;
  const std::string path = library_of(GetParam());
  const auto symbols = find_probe_points(path);
  ASSERT_TRUE(symbols) << symbols.error().what;
  const auto attached = (*kernel)->attach_file(path, symbols->points);
  ASSERT_TRUE(attached) << attached.error().what;
  const auto pids = run_job(GetParam());
  std::map<int32_t, size_t> reported;
  (*kernel)->consume([&](std::span<const std::byte> bytes) {
    st_header header;
    ASSERT_GE(bytes.size(), sizeof header);
    std::memcpy(&header, bytes.data(), sizeof header);
    size_t& of_process = reported[static_cast<int32_t>(header.tgid)];
    of_process += header.type == ST_RECORD_SYNC ? 1 : 0;
    if (header.type == ST_RECORD_REQUESTS_DONE) {
      st_requests_done record;
      ASSERT_EQ(bytes.size(), sizeof record);
      std::memcpy(&record, bytes.data(), sizeof record);
      for_each_request(record, [&](const st_sync&) { ++of_process; });
    }
  });
  ASSERT_EQ(pids.size(), 2U);
  for (const auto& [rank, pid] : pids) {
    EXPECT_EQ(reported[pid], kRequests) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Libraries, MpiRoot, testing::ValuesIn(kLibraries),
                         [](const auto& library) { return library.param.name; });

}  // namespace
}  // namespace stalltrace::capture
