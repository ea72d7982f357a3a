// SPDX-License-Identifier: Apache-2.0
// Recordings of some nodes alone, of the lab's faults of the network, the disk, memory and the set-up: for each subset
// of nodes the right finding, or that it is not seen. Never another rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "analysis/explain.h"
#include "analysis/testing/launched_job.h"
#include "analysis/testing/network_job.h"
#include "analysis/testing/slow_job.h"
#include "analysis/testing/subset.h"
#include "lab/simulation/job.h"
#include "lab/simulation/shapes.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// A job of four nodes with a fault, and what a finding about it may say.
struct FaultyJob {
  std::string name;
  std::function<void(MemorySource&)> fill;
  std::set<Cause> causes;         // beside unknown
  std::set<int> to_blame;         // ranks
  std::set<int> ends;             // of the link
  bool needs_all_ranks = false;   // for its finding
  bool stalls_everywhere = true;  // each rank waits visibly
};

std::set<int> ranks_of_link(const Finding& finding) {
  std::set<int> ranks;
  if (finding.link) {
    for (const std::optional<int32_t>& rank : {finding.link->src_rank, finding.link->dst_rank}) {
      if (rank) {
        ranks.insert(*rank);
      }
    }
  }
  return ranks;
}

/// Expects that the finding is about the fault, or names none. Returns whether it is.
bool expect_about(const FaultyJob& fault, const Finding& finding) {
  const bool named = finding.cause != Cause::kUnknown;
  EXPECT_TRUE(!named || fault.causes.contains(finding.cause)) << to_text(finding.cause);
  if (finding.culprit) {
    EXPECT_TRUE(finding.culprit->rank && fault.to_blame.contains(*finding.culprit->rank)) << finding.summary;
  }
  EXPECT_TRUE(std::ranges::includes(fault.ends, ranks_of_link(finding))) << finding.summary;
  return named;
}

void expect_no_other_rank(const FaultyJob& fault) {
  MemorySource whole;
  fault.fill(whole);
  int named = 0;
  for (unsigned subset = 1; subset < (1U << kRanks) - 1; ++subset) {
    MemorySource part = recorded_on(nodes_of(ranks_in(subset)), whole);
    const Report report = report_of(part);
    SCOPED_TRACE(fmt::format("{}, ranks recorded {:04b} (rank 0 last)\n{}", fault.name, subset, reported(report)));
    EXPECT_NE(report.health(), std::optional(true));
    EXPECT_FALSE(report.unrecorded_ranks.empty());
    EXPECT_EQ(std::ranges::count(report.notes, report.unrecorded_ranks), 1);
    EXPECT_TRUE(!fault.stalls_everywhere || !report.findings.empty());
    for (const Finding& finding : report.findings) {
      named += expect_about(fault, finding) ? 1 : 0;
    }
  }
  EXPECT_EQ(named > 0, !fault.needs_all_ranks) << fault.name;
}

void expect_no_other_rank(const std::vector<FaultyJob>& faults) {
  for (const FaultyJob& fault : faults) {
    expect_no_other_rank(fault);
  }
}

TEST(PartialFaults, OfSlowLinksAndReceivers) {
  const auto slow_link = [](MemorySource& source) {
    fill_slow(source, [](int rank, int64_t at, TcpSample& sender, TcpSample&) {
      sender.busy_ns = rank == 2 ? static_cast<uint64_t>(at) * 50 * kNsPerMs : sender.busy_ns;
    });
  };
  const auto unread = [](MemorySource& source) {
    fill_slow(source, [](int rank, int64_t at, TcpSample&, TcpSample& receiver) {
      receiver.unread_bytes = rank == 1 || at % 3 == 0 ? 60'000 : 0;
    });
  };
  const auto closed_windows = [](MemorySource& source) {  // rank 0 waits for rank 1, which waits for rank 2
    fill_slow(source, [](int rank, int64_t at, TcpSample& sender, TcpSample& receiver) {
      if (rank == 0 || rank == 1) {
        sender.busy_ns = sender.receiver_limited_ns = static_cast<uint64_t>(at) * 50 * kNsPerMs;
      }
      receiver.unread_bytes = rank == 1 || rank == 2 ? 60'000 : 0;
    });
  };
  expect_no_other_rank({{"slow_link", slow_link, {Cause::kSlowLink}, {2}, {2, 3}},
                        {"slow_receiver, unread data", unread, {Cause::kSlowReceiver}, {1}, {0, 1}},
                        {"slow_receiver, closed windows", closed_windows, {Cause::kSlowReceiver}, {2}, {1, 2}}});
}

TEST(PartialFaults, OfPacketsThatAHostDrops) {
  std::vector<FaultyJob> faults;
  for (const bool incoming : {true, false}) {
    const auto fill = [incoming](MemorySource& source) {
      source = lossy_job();
      drop(source, incoming, incoming ? "CPU_BACKLOG" : "QDISC_DROP");
    };
    const std::set<Cause> causes{Cause::kHostDrop, Cause::kPacketLoss};  // by the sender alone it is loss
    faults.push_back({incoming ? "host_drop, in" : "host_drop, out", fill, causes, {incoming ? 2 : 1}, {1, 2}});
  }
  expect_no_other_rank(faults);
}

TEST(PartialFaults, OfLinksThatLetNothingThrough) {
  const auto silence = [](KeepAlive keep_alive) {
    return [keep_alive](MemorySource& source) { fill_silence(source, {1}, kMss, keep_alive); };
  };
  const auto node = [](MemorySource& source) { fill_silence(source, {1, 2}, kMss, KeepAlive::kLost); };
  expect_no_other_rank({{"partition", silence(KeepAlive::kLost), {Cause::kPartition}, {}, {1, 2}},
                        {"partition of a node", node, {Cause::kPartition}, {2}, {1, 2, 3}},
                        {"mtu_blackhole", silence(KeepAlive::kPasses), {Cause::kMtuBlackhole}, {}, {1, 2}}});
}

/// The connection from rank 1 to rank 2 is reset in the last call; each rank in `delays_ns` fails that much later.
FaultyJob reset_job(const std::string& name, const std::vector<int64_t>& delays_ns) {
  const auto fill = [delays_ns](MemorySource& source) {
    Ending ending = short_hang();
    ending.process = [&](int rank, Process& process) {
      if (delays_ns[static_cast<size_t>(rank)] > 0) {
        fail_at(process, kLastArrivalNs + 30 * kNsPerMs + delays_ns[static_cast<size_t>(rank)]);
      }
    };
    small_job::fill(source, ending);
    connect(source);
    source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs + 30 * kNsPerMs));
  };
  return {.name = name,
          .fill = fill,
          .causes = {},
          .to_blame = {},
          .ends = {1, 2},
          .needs_all_ranks = true,
          .stalls_everywhere = false};
}

/// Whether the process at the other end had closed it, or ended, shows in all recordings alone.
TEST(PartialFaults, OfConnectionsThatAreReset) {
  expect_no_other_rank(
      {reset_job("connection_reset, one rank gives up", {0, 10 * kNsPerSecond, 0, 0}),
       reset_job("connection_reset, all end at once", {2 * kNsPerMs, 3 * kNsPerMs, 4 * kNsPerMs, 5 * kNsPerMs}),
       reset_job("connection_reset, one after the other",
                 {100 * kNsPerMs, 1 * kNsPerSecond, 3 * kNsPerSecond, 8 * kNsPerSecond})});
}

WaitSpan disk_wait(int rank, int64_t from_ns, int64_t length_ns) {
  WaitSpan span{.node_id = node_of_rank(rank), .timestamp_ns = from_ns, .window_ns = length_ns, .waited_ns = length_ns};
  span.kind = WaitKind::kDisk;
  span.pid = span.tid = 10 + rank;
  return span;
}

TEST(PartialFaults, OfRanksThatWaitForTheirDisk) {
  constexpr int64_t kLateNs = 40 * kNsPerMs;
  const auto in_every_step = [](MemorySource& source) {
    fill(source, late(1, kLateNs));
    for (int64_t step = kSlowFrom; step < kSteps; ++step) {
      source.accept(disk_wait(1, begin_of(step), kLateNs));
    }
  };
  const auto to_the_end = [](MemorySource& source) {
    Ending ending = hang({3});
    ending.node = [](int, Node& node) { node.ended_ns = kEndNs; };
    fill(source, ending);
    source.accept(disk_wait(3, kLastArrivalNs - 10 * kNsPerMs, kHangNsReported + 10 * kNsPerMs));
  };
  FaultyJob late_job{"disk_io, late", in_every_step, {Cause::kDiskIo}, {1}, {}};
  // Beside one recorded rank, which of the two is elsewhere is not known: a call is missing, and no rank is named.
  FaultyJob hung_job{"disk_io, hung", to_the_end, {Cause::kDiskIo, Cause::kMissingCollective}, {3}, {}};
  late_job.stalls_everywhere = hung_job.stalls_everywhere = false;  // the late rank waits for none
  expect_no_other_rank({late_job, hung_job});
}

/// Rank 2 dies because memory ran out; the others' calls fail, and end their processes with `signal`, or with an exit
/// code where that is 0, each `apart_ns` after the one before.
FaultyJob out_of_memory(const std::string& name, int64_t apart_ns, int32_t signal = 0) {
  const auto fill = [=](MemorySource& source) {
    Ending ending = hang({2});
    ending.process = [=](int rank, Process& process) {
      const int64_t after_ns = (rank + 1) * apart_ns;
      if (rank == 2) {
        exit_at(process, kLastArrivalNs - kNsPerMs, SIGKILL);
        process.oom_killed = true;
      } else if (apart_ns > 0 && (signal == 0 || rank == 1)) {
        fail_at(process, kLastArrivalNs + after_ns);
      } else if (apart_ns > 0) {
        exit_at(process, kLastArrivalNs + after_ns, signal);
      }
    };
    small_job::fill(source, ending);
  };
  FaultyJob job{name, fill, {Cause::kDeadRank}, {2}, {}};
  job.stalls_everywhere = apart_ns == 0;
  return job;
}

TEST(PartialFaults, OfDeathsByLackOfMemoryThatOthersFollow) {
  expect_no_other_rank({out_of_memory("out of memory, the others wait", 0),
                        out_of_memory("out of memory, the others fail at once", 20 * kNsPerMs),
                        out_of_memory("out of memory, the others fail", 300 * kNsPerMs),
                        out_of_memory("out of memory, the others fail slowly", 3 * kNsPerSecond),
                        out_of_memory("out of memory, others abort at once", 20 * kNsPerMs, SIGABRT),
                        out_of_memory("out of memory, others abort", 300 * kNsPerMs, SIGABRT),
                        out_of_memory("out of memory, others abort slowly", 3 * kNsPerSecond, SIGABRT)});
}

/// Tensor groups of ranks 0 and 1, 2 and 3; data groups of ranks 0 and 2, 1 and 3. In each step a rank calls on the
/// first, then on the second. From kSlowFrom on, or in the last step alone where it `dies`, rank 2 does not come to its
/// data group in time: rank 0 waits for it there, and rank 1 for rank 0 in the tensor group's next call.
void fill_mesh(MemorySource& source, bool dies) {
  constexpr int64_t kLateNs = 40 * kNsPerMs;
  constexpr int64_t kTransferNs = 2 * kNsPerMs;
  constexpr int64_t kComputesNs = kStepNs - kTransferNs;  // between its two calls
  Ending ending;
  ending.process = [=](int rank, Process& process) {
    process.rank_source = RankSource::kEnvironment;
    process.world_size = kRanks;
    process.job_id = "job";
    if (dies && rank == 2) {
      exit_at(process, begin_of(kSteps - 1) + kComputesNs, SIGKILL);
    }
  };
  describe(source, ending);
  const auto late_ns = [=](int64_t step) { return !dies && step >= kSlowFrom && step < kSteps ? kLateNs : 0; };
  uint64_t calls = 0;
  int64_t from_ns = kOriginNs;
  for (int64_t step = 0; step <= kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const bool waits_or_is_late = rank % 2 == 0;
      const auto add = [&](CommHash hash, int comm_rank, int64_t arrival_ns, int64_t end_ns) {
        Collective call = call_of(rank, step);
        call.event_id = make_event_id(call.node_id, ++calls);
        call.timestamp_ns = arrival_ns;
        call.duration_ns = end_ns - arrival_ns;
        call.rank = comm_rank;
        call.nranks = 2;
        call.comm_id_hash = call.comm_ptr = hash;
        call.completion = Completion::kNetwork;  // no call of the rank is known to have waited for its end
        if (end_ns == kForever) {
          leave_open(call);
        }
        source.accept(call);
      };
      const bool hangs = dies && step >= kSteps - 1;
      const int64_t before_ns = step > 0 && !waits_or_is_late ? late_ns(step - 1) : 0;
      if (step < kSteps || (hangs && !waits_or_is_late)) {
        add(kHash + static_cast<CommHash>(rank / 2), rank % 2, from_ns - before_ns,
            step < kSteps ? from_ns + kTransferNs : kForever);
      }
      if (step < kSteps && !(hangs && rank == 2)) {
        const int64_t data_ns = from_ns + kComputesNs;
        const int64_t pair_ns = waits_or_is_late ? late_ns(step) : 0;
        add(kHash + 2 + static_cast<CommHash>(rank % 2), rank / 2, data_ns + (rank == 2 ? pair_ns : 0),
            hangs && rank == 0 ? kForever : data_ns + pair_ns + kTransferNs);
      }
    }
    from_ns += kStepNs + late_ns(step);
  }
}

/// The communicator of ranks 0 and 1 is whole where both are recorded: the one that is awaited there waits in turn.
TEST(PartialFaults, OfRanksThatAreAwaitedThroughOtherCommunicators) {
  const auto mesh = [](bool dies) { return [dies](MemorySource& source) { fill_mesh(source, dies); }; };
  FaultyJob late_job{"late_rank in a mesh", mesh(false), {Cause::kLateRank}, {2}, {}};
  FaultyJob dead_job{"dead_rank in a mesh", mesh(true), {Cause::kDeadRank}, {2}, {}};
  late_job.stalls_everywhere = dead_job.stalls_everywhere = false;  // the late rank waits for none
  expect_no_other_rank({late_job, dead_job});
  MemorySource whole;
  fill_mesh(whole, false);
  expect_culprit(only(whole), Cause::kLateRank, 2);
  MemorySource part = recorded_on(nodes_of({0, 1}), whole);
  const Report report = report_of(part);
  ASSERT_FALSE(report.findings.empty());
  golden::expect_text(report.findings[0].summary);
}

/// A device that begins late may have waited for a neighbour in the pipeline that was not recorded. That time was lost
/// is found all the same.
TEST(PartialFaults, OfSlowDevicesOfAPipeline) {
  for (const simulation::Fault& fault :
       {simulation::Fault{.kind = simulation::FaultKind::kSlowDevice, .rank = 0, .ms = 60, .from = 20},
        simulation::Fault{.kind = simulation::FaultKind::kSlowDevice, .rank = 1, .ms = 60, .from = 20}}) {
    simulation::JobOptions options{.nodes = kRanks, .ranks_per_node = 1, .steps = 60, .plugin = true};
    ASSERT_TRUE(simulation::apply_shape("pipeline", options).has_value());
    options.faults = {fault};
    MemorySource whole;
    simulation::Job(options).record_all(whole);
    for (const std::set<int>& ranks : {std::set{0, 1, 2}, std::set{0, 1, 3}, std::set{1, 2, 3}}) {
      MemorySource part = recorded_on(nodes_of(ranks), whole);
      const Report report = report_of(part);
      SCOPED_TRACE(reported(report));
      EXPECT_NE(report.health(), std::optional(true));
      EXPECT_FALSE(report.findings.empty());
      for (const Finding& finding : report.findings) {
        EXPECT_TRUE(!finding.culprit || finding.culprit->rank == fault.rank) << finding.summary;
      }
    }
  }
}

/// Every collective of the job needs all ranks: that one of them was not recorded makes no other device late.
TEST(PartialFaults, OfSlowDevicesOfReplicas) {
  constexpr int kSlow = 1;
  simulation::JobOptions options{.nodes = kRanks, .ranks_per_node = 1, .steps = 60, .plugin = true};
  options.faults = {{.kind = simulation::FaultKind::kSlowDevice, .rank = kSlow, .ms = 80, .from = 20}};
  MemorySource whole;
  simulation::Job(options).record_all(whole);
  for (unsigned subset = 1; subset < (1U << kRanks) - 1; ++subset) {
    const std::set<int> ranks = ranks_in(subset);
    MemorySource part = recorded_on(nodes_of(ranks), whole);
    const Report report = report_of(part);
    SCOPED_TRACE(fmt::format("ranks recorded {:04b} (rank 0 last)\n{}", subset, reported(report)));
    EXPECT_NE(report.health(), std::optional(true));
    for (const Finding& finding : report.findings) {
      EXPECT_TRUE(!finding.culprit || finding.culprit->rank == kSlow) << finding.summary;
    }
    EXPECT_EQ(std::ranges::count(report.findings, Cause::kSlowDevice, &Finding::cause),
              ranks.contains(kSlow) && ranks.size() > 1 ? 1 : 0);
  }
}

/// Its ranks 0 and 1 were recorded, and rank 1 has calls with one that was not: its device may have waited for that.
TEST(PartialFaults, WhatASlowDeviceMayHaveWaitedForIsNotKnown) {
  simulation::JobOptions options{.nodes = kRanks, .ranks_per_node = 1, .steps = 60, .plugin = true};
  options.faults = {{.kind = simulation::FaultKind::kSlowDevice, .rank = 1, .ms = 80, .from = 20}};
  MemorySource whole;
  simulation::Job(options).record_all(whole);
  MemorySource part = recorded_on(nodes_of({0, 1}), whole);
  std::vector<Collective> others;
  EXPECT_TRUE(part.stream<Collective>({},
                                      [&](const Collective& row) {
                                        if (row.node_id == node_of_rank(1) && row.op == Operation::kAllReduce &&
                                            row.seq.value_or(1) % 12 == 0) {
                                          others.push_back(row);
                                        }
                                      })
                  .has_value());
  EXPECT_FALSE(others.empty());
  for (size_t i = 0; i < others.size(); ++i) {
    Collective& call = others[i];
    call.event_id += 10'000'000;
    call.timestamp_ns -= 100 * kNsPerUs;
    call.duration_ns = 50 * kNsPerUs;
    call.kernel_start_ns.reset();
    call.comm_id_hash = call.comm_ptr = 0x99;
    call.seq = static_cast<int64_t>(i);
    call.rank = 0;
    call.nranks = 2;
    part.accept(call);
  }
  const Report report = report_of(part);
  ASSERT_FALSE(report.findings.empty());
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.cause, Cause::kUnknown) << finding.summary;
    EXPECT_FALSE(finding.culprit.has_value()) << finding.summary;
  }
}

/// Ranks on nodes of their own that do not meet. In such a time nothing but the set-up is judged.
struct FailedSetUp {
  std::string name;
  std::function<void(MemorySource&)> fill;
  int ranks = 0;
  int to_blame = 0;
};

void expect_no_other_rank(const FailedSetUp& fault) {
  MemorySource whole;
  fault.fill(whole);
  int named = 0;
  for (unsigned subset = 1; subset < (1U << fault.ranks) - 1; ++subset) {
    MemorySource part = recorded_on(nodes_of(ranks_in(subset)), whole);
    const Report report = report_of(part);
    SCOPED_TRACE(fmt::format("{}, ranks recorded {:04b} (rank 0 last)\n{}", fault.name, subset, reported(report)));
    EXPECT_NE(report.health(), std::optional(true));
    for (const Finding& finding : report.findings) {
      EXPECT_EQ(finding.cause, Cause::kInitFailure);
      if (finding.culprit) {
        EXPECT_EQ(finding.culprit->rank, fault.to_blame);
        ++named;
      }
    }
  }
  EXPECT_GT(named, 0) << fault.name << ": what the recorded nodes show is still found";
}

enum class Launched { kKeptOut, kAbsent, kEnded, kStoreEnded };

/// Ranks 0 to 2, on nodes 1 to 3. Rank 2 does not reach the store, rank 1 was never started or ended early, or rank 0
/// ended before it served the store.
void launch(MemorySource& source, Launched how) {
  SetUpRows job(40 * kNsPerSecond);
  job.add_host(2);
  job.add_host(3);
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    const NodeId node = node_of_rank(rank);
    const Process process = job.process(rank, node);
    const bool ends = (how == Launched::kEnded && rank == 1) || (how == Launched::kStoreEnded && rank == 0);
    if (how == Launched::kAbsent && rank == 1) {
      continue;
    }
    job.start(ends ? SetUpRows::ended(process, 1500 * kNsPerMs, 1) : process);
    const bool kept_out = how == Launched::kKeptOut ? rank == 2 : how == Launched::kStoreEnded;
    if (ends) {
      continue;
    }
    job.connect(process.pid, 29500, kept_out ? ECONNREFUSED : 0, kept_out ? 12 : 1, node);
    if (!kept_out) {
      job.set_up(process.pid, 3 * kNsPerSecond, std::nullopt, node);
    }
  }
  source = std::move(job.source());
}

TEST(PartialFaults, OfJobsWhoseRanksDoNotMeet) {
  const auto launched = [](Launched how) { return [how](MemorySource& source) { launch(source, how); }; };
  expect_no_other_rank(FailedSetUp{"a rank is kept out", launched(Launched::kKeptOut), kWorld, 2});
  expect_no_other_rank(FailedSetUp{"a rank was not started", launched(Launched::kAbsent), kWorld, 1});
  expect_no_other_rank(FailedSetUp{"a rank ended", launched(Launched::kEnded), kWorld, 1});
  expect_no_other_rank(FailedSetUp{"rank 0 ended", launched(Launched::kStoreEnded), kWorld, 0});
}

/// All four ranks except `elsewhere` set up a communicator for 20 s; each of `tries` is refused at `address` five
/// times.
void set_up_in_vain(MemorySource& source, std::optional<int> elsewhere, const std::set<int>& tries,
                    const std::string& address) {
  Ending ending;
  ending.node = [](int, Node& node) { node.ended_ns = kOriginNs + 20 * kNsPerSecond; };
  describe(source, ending);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != elsewhere) {
      Collective call = call_of(rank, 0);
      call.op = Operation::kCommInitRank;
      call.seq.reset();
      leave_open(call);
      source.accept(call);
    }
  }
  for (const int rank : tries) {
    for (int attempt = 1; attempt <= 5; ++attempt) {
      TcpEvent event = event_of(rank, TcpEventKind::kConnectFailed, kOriginNs + attempt * kNsPerSecond);
      event.destination = {address, 29500};
      event.cookie = 50;
      event.state = ECONNREFUSED;
      source.accept(event);
    }
  }
}

TEST(PartialFaults, OfCommunicatorsThatAreNotSetUp) {
  const auto kept_out = [](MemorySource& source) {
    set_up_in_vain(source, 2, {2}, "10.77.0.1");
    Connection row{.node_id = node_of_rank(0), .cookie = 9, .pid = 10, .family = 2, .source = {"10.77.0.1", 29500}};
    row.destination = {"10.77.0.4", 40000};
    source.accept(row);
  };
  const auto loopback = [](MemorySource& source) { set_up_in_vain(source, std::nullopt, {1, 2, 3}, "127.0.0.1"); };
  const auto foreign = [](MemorySource& source) { set_up_in_vain(source, std::nullopt, {0, 1, 3}, "10.66.0.3"); };
  expect_no_other_rank(FailedSetUp{"a rank is kept out of the communicator", kept_out, kRanks, 2});
  expect_no_other_rank(FailedSetUp{"rank 0 announced a loopback address", loopback, kRanks, 0});
  MemorySource whole;
  foreign(whole);
  expect(report_of(whole), Cause::kInitFailure, 2);
  for (const std::set<int>& ranks : {std::set{0, 1, 3}, std::set{1, 2}, std::set{0}}) {
    MemorySource part = recorded_on(nodes_of(ranks), whole);
    for (const Finding& finding : report_of(part).findings) {
      EXPECT_FALSE(finding.culprit.has_value()) << finding.summary;
    }
  }
}

}  // namespace
}  // namespace stalltrace::analysis
