// SPDX-License-Identifier: Apache-2.0
// What the hosts' own evidence makes of a stall: packets they dropped, port counters, throttled cgroups, memory's end.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

constexpr int kSlowFrom = 40;
constexpr int64_t kSlowNs = 40 * kNsPerMs;
constexpr uint32_t kSegment = 30'000;
constexpr uint64_t kOut = 1;  // cookie of a rank's connection to the next one
constexpr uint64_t kIn = 2;   // of the one from the rank before

NodeId node_of(int rank) { return static_cast<NodeId>(1 + rank); }
int64_t begin_of(int64_t step) { return kOriginNs + step * kStepNs; }

/// From kSlowFrom on all transfers are slow.
Ending slow() {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step >= kSlowFrom) {
      call.duration_ns = kSlowNs - rank * 100 * kNsPerUs;
    }
    return true;
  };
  return ending;
}

void connect(MemorySource& source) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const int next = (rank + 1) % kRanks;
    const int previous = (rank + kRanks - 1) % kRanks;
    const auto address = [](int who) { return "10.77.0." + std::to_string(who + 1); };
    const auto end = [&](uint64_t cookie, int peer, uint16_t port, uint16_t peer_port) {
      Connection row{.node_id = node_of(rank), .cookie = cookie, .pid = 10 + rank, .family = 2};
      row.source = {address(rank), port};
      row.destination = {address(peer), peer_port};
      row.opened_ns = kOriginNs;
      source.accept(row);
    };
    end(kOut, next, static_cast<uint16_t>(40'000 + rank), 50'000);
    end(kIn, previous, 50'000, static_cast<uint16_t>(40'000 + previous));
  }
}

/// Rank 1 repeats a segment to rank 2 and recovers for most of each slow step.
void lose(MemorySource& source) {
  uint64_t number = 0;
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    TcpEvent event{.node_id = node_of(1), .pid = 11, .cookie = kOut};
    const auto add = [&](TcpEventKind kind, int64_t after_ns, int32_t state, uint32_t len) {
      event.event_id = make_event_id(event.node_id, 5'000'000 + ++number);
      event.event = kind;
      event.timestamp_ns = begin_of(step) + after_ns;
      event.state = state;
      event.len = len;
      source.accept(event);
    };
    add(TcpEventKind::kCongestionState, 2 * kNsPerMs, 3, 0);
    add(TcpEventKind::kRetransmit, 3 * kNsPerMs, 3, kSegment);
    add(TcpEventKind::kCongestionState, kSlowNs - kNsPerMs, 0, 0);
  }
}

/// One packet of each slow step dropped at the end of the link 1 -> 2 that `incoming` says.
void drop(MemorySource& source, bool incoming, const std::string& reason, uint64_t bytes = kSegment) {
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    PacketDrop row{.node_id = node_of(incoming ? 2 : 1), .timestamp_ns = begin_of(step) + 2 * kNsPerMs};
    row.cookie = incoming ? kIn : kOut;
    row.incoming = incoming;
    row.reason = reason;
    row.packets = 1;
    row.bytes = bytes;
    source.accept(row);
  }
}

Finding only(MemorySource& source) {
  const Report report = report_of(source);
  EXPECT_EQ(report.findings.size(), 1U) << told(report);
  return report.findings.empty() ? Finding{} : report.findings[0];
}

std::string text_of(const Finding& finding) {
  std::string text = finding.summary;
  for (const Evidence& evidence : finding.evidence) {
    text += "\n" + evidence.text;
  }
  return text;
}

void expect_text(const Finding& finding, const std::string& part) {
  EXPECT_NE(text_of(finding).find(part), std::string::npos) << text_of(finding);
}

MemorySource lossy_job() {
  MemorySource source;
  fill(source, slow());
  connect(source);
  lose(source);
  return source;
}

TEST(HostDrop, AFullQueueAtTheReceiversHostIsTheCause) {
  MemorySource source = lossy_job();
  drop(source, true, "CPU_BACKLOG");
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kHostDrop);
  ASSERT_TRUE(finding.culprit.has_value());
  EXPECT_EQ(finding.culprit->rank, 2);
  expect_text(finding, "on their way in");
  EXPECT_NE(finding.remedy.find("netdev_max_backlog"), std::string::npos) << finding.remedy;
}

TEST(HostDrop, AFullQueueAtTheSendersHostIsTheCause) {
  MemorySource source = lossy_job();
  drop(source, false, "QDISC_DROP");
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kHostDrop);
  EXPECT_EQ(finding.culprit->rank, 1);
  expect_text(finding, "on their way out");
}

TEST(HostDrop, AReasonThatIsNotInTheTableIsToldByItsName) {
  MemorySource source = lossy_job();
  drop(source, true, "SOMETHING_NEW");
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kHostDrop);
  expect_text(finding, "SOMETHING_NEW");
}

TEST(HostDrop, AFewDropsAmongManyRepeatsAreNotTheCause) {
  MemorySource source = lossy_job();
  drop(source, true, "CPU_BACKLOG", kSegment / 10);
  EXPECT_EQ(only(source).cause, Cause::kPacketLoss);
}

TEST(PacketLossSide, AFirewallsDropsAreToldWithTheirSide) {
  MemorySource source = lossy_job();
  drop(source, true, "NETFILTER_DROP");
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kPacketLoss);
  expect_text(finding, "vanished inside the host of rank 2, on the way in (its firewall (netfilter), NETFILTER_DROP)");
}

TEST(PacketLossSide, WhereNoHostDroppedThemTheyVanishedBetween) {
  MemorySource source = lossy_job();
  for (int rank = 0; rank < kRanks; ++rank) {
    source.accept(HostSample{node_of(rank), begin_of(kSlowFrom), "drop_reasons_now", "", 1});
  }
  expect_text(only(source), "neither end's host dropped any");
}

TEST(PacketLossSide, WithoutCountsOfDropsNothingIsSaid) {
  MemorySource source = lossy_job();
  EXPECT_EQ(text_of(only(source)).find("dropped any"), std::string::npos);
}

TEST(PacketLossNeedless, WhatThePeerHadAlreadyWasNotLost) {
  for (const bool needless : {true, false}) {
    MemorySource source = lossy_job();
    for (int64_t step = 0; step < kSteps; ++step) {
      for (const int64_t after_ns : {int64_t{0}, kSlowNs}) {
        TcpSample sample{.node_id = node_of(1), .timestamp_ns = begin_of(step) + after_ns, .cookie = kOut};
        sample.pid = 11;
        sample.bytes_acked = static_cast<uint64_t>(step + 1) * 1'000'000;
        sample.total_retrans = static_cast<uint32_t>(step < kSlowFrom ? 0 : step - kSlowFrom + (after_ns > 0 ? 1 : 0));
        sample.dsack_dups = needless ? sample.total_retrans : 0;
        source.accept(sample);
      }
    }
    EXPECT_EQ(only(source).cause, needless ? Cause::kUnknown : Cause::kPacketLoss);
  }
}

/// The counters of rank 3's port, each second; the job is slow from kSlowFrom on.
MemorySource job_with_port(bool carries_data) {
  MemorySource source;
  fill(source, slow());
  for (int64_t second = 0; second <= kSteps * kStepNs / kNsPerSecond; ++second) {
    PortCounter row{node_of(3), kOriginNs + second * kNsPerSecond, "mlx5_0", 1, "symbol_error", 0};
    row.value = second < 2 ? 7 : 7 + 300 * static_cast<uint64_t>(second - 1);
    source.accept(row);
    if (carries_data) {
      row.name = "port_xmit_data";
      row.value = 1'000'000 * static_cast<uint64_t>(second);
      source.accept(row);
    }
  }
  return source;
}

TEST(FabricErrors, ThePortThatCountsErrorsIsNamed) {
  MemorySource source = job_with_port(true);
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kFabricErrors);
  ASSERT_TRUE(finding.culprit.has_value());
  EXPECT_EQ(finding.culprit->rank, 3);
  expect_text(finding, "mlx5_0 port 1 symbol_error");
}

TEST(FabricErrors, AnIdlePortsErrorsAreNoCause) {
  MemorySource source = job_with_port(false);
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

/// Rank 1 comes 30 ms late to every step from kSlowFrom on, ready to run all the while.
MemorySource starved_job(bool throttled) {
  constexpr int64_t kLateNs = 30 * kNsPerMs;
  MemorySource source;
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    const int64_t late_ns = step >= kSlowFrom ? kLateNs : 0;
    call.timestamp_ns += rank == 1 ? late_ns : 0;
    call.duration_ns = 5 * kNsPerMs + (rank == 1 ? 0 : late_ns);
    return true;
  };
  fill(source, ending);
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    WaitSpan wait{.node_id = node_of(1), .timestamp_ns = begin_of(step), .window_ns = kLateNs, .waited_ns = kLateNs};
    wait.kind = WaitKind::kRunnable;
    wait.pid = wait.tid = 11;
    wait.by_pid = 12;
    wait.by_name = "train";  // another rank of the job
    wait.by_waited_ns = kLateNs;
    source.accept(wait);
  }
  double us = 0;
  for (int64_t second = 0; second <= kSteps * kStepNs / kNsPerSecond; ++second) {
    source.accept(HostSample{node_of(1), kOriginNs + second * kNsPerSecond, "throttled_us", "11:/pod/job", us});
    us += throttled && second >= 1 ? 700'000 : 0;
  }
  return source;
}

TEST(Throttled, TheCgroupThatMayNotRunIsNamed) {
  MemorySource source = starved_job(true);
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kCpuContention);
  EXPECT_EQ(finding.culprit->rank, 1);
  expect_text(finding, "its cgroup /pod/job had used up its CPU time and was throttled");
}

TEST(Throttled, WithoutThrottlingNobodySaysSo) {
  MemorySource source = starved_job(false);
  for (const Finding& finding : report_of(source).findings) {
    EXPECT_EQ(text_of(finding).find("throttled"), std::string::npos) << text_of(finding);
  }
}

/// Rank 1 comes 220 ms late to three steps from `from` on, ready to run while `who` has its core.
Report report_of_contention(int64_t from, const std::string& who) {
  constexpr int64_t kApartNs = 500 * kNsPerMs;
  constexpr int64_t kLateNs = 220 * kNsPerMs;
  const auto begin = [](int64_t step) { return kOriginNs + step * kApartNs; };
  const auto is_late = [&](int64_t step) { return step >= from && step < from + 3; };
  MemorySource source;
  Ending ending;
  ending.call = [&](int rank, int64_t step, Collective& call) {
    const int64_t late_ns = is_late(step) ? kLateNs : 0;
    call.timestamp_ns = begin(step) + (rank == 1 ? late_ns : 0);
    call.duration_ns = 5 * kNsPerMs + (rank == 1 ? 0 : late_ns);
    return true;
  };
  fill(source, ending);
  for (int64_t step = from; step < from + 3; ++step) {
    WaitSpan wait{.node_id = node_of(1), .timestamp_ns = begin(step), .window_ns = kLateNs, .waited_ns = kLateNs};
    wait.kind = WaitKind::kRunnable;
    wait.pid = wait.tid = 11;
    wait.by_pid = who == "train" ? 12 : 4711;
    wait.by_name = who;
    wait.by_waited_ns = kLateNs;
    source.accept(wait);
  }
  return report_of(source);
}

TEST(Contention, OfAJobsOwnRanksWhileTheyWarmUpIsNotTold) {
  const Report warming_up = report_of_contention(4, "train");
  EXPECT_TRUE(warming_up.findings.empty()) << told(warming_up);
  for (const Report& report : {report_of_contention(60, "train"), report_of_contention(4, "stranger")}) {
    ASSERT_EQ(report.findings.size(), 1U) << told(report);
    EXPECT_EQ(report.findings[0].cause, Cause::kCpuContention) << told(report);
    EXPECT_EQ(report.findings[0].culprit->rank, 1);
  }
}

/// A host's number that rises by `per_second` from `from_second` on.
void count(MemorySource& source, int rank, const std::string& name, const std::string& detail, double per_second,
           int64_t from_second = 2) {
  for (int64_t second = -1; second <= kSteps * kStepNs / kNsPerSecond + 1; ++second) {
    const double value = 1'000 + per_second * static_cast<double>(std::max<int64_t>(0, second - from_second));
    source.accept(HostSample{node_of(rank), kOriginNs + second * kNsPerSecond, name, detail, value});
  }
}

/// The finding of `source` is what it would be without what the hosts count, but for the lines of evidence added.
std::string expect_only_hints(MemorySource& source, MemorySource& without) {
  const Finding told = only(source);
  const Finding plain = only(without);
  EXPECT_EQ(told.cause, plain.cause);
  EXPECT_EQ(told.summary, plain.summary);
  EXPECT_EQ(told.remedy, plain.remedy);
  EXPECT_EQ(told.confidence, plain.confidence);
  EXPECT_EQ(told.stall_ms, plain.stall_ms);
  EXPECT_EQ(told.culprit.has_value(), plain.culprit.has_value());
  EXPECT_LE(plain.evidence.size(), told.evidence.size());
  std::string hints;
  for (size_t i = plain.evidence.size(); i < told.evidence.size(); ++i) {
    EXPECT_EQ(told.evidence[i].kind, "host_sample");
    hints += told.evidence[i].text + "\n";
  }
  return hints;
}

/// A job whose links are healthy and whose rank 1 is late, with a number of one host; the hints told with the finding.
std::string hints_of_starved(int rank, const std::string& name, double per_second) {
  MemorySource source = starved_job(true);
  MemorySource without = starved_job(true);
  count(source, rank, name, name.starts_with("net") ? "eth0" : "", per_second);
  return expect_only_hints(source, without);
}

TEST(Meanwhile, MemoryPressureAtTheCulpritsHostIsTold) {
  const std::string some = hints_of_starved(1, "pressure_memory_some_us", 500'000);
  EXPECT_TRUE(some.starts_with("meanwhile processes on node1 waited for memory for ")) << some;
  EXPECT_NE(some.find("(PSI some)"), std::string::npos) << some;
  const std::string full = hints_of_starved(1, "pressure_memory_full_us", 500'000);
  EXPECT_TRUE(full.starts_with("meanwhile all processes on node1 waited for memory for ")) << full;
}

TEST(Meanwhile, LittleMemoryPressureOrAnotherHostsIsNotTold) {
  EXPECT_EQ(hints_of_starved(1, "pressure_memory_some_us", 50'000), "");
  EXPECT_EQ(hints_of_starved(2, "pressure_memory_some_us", 500'000), "");
}

TEST(Meanwhile, PacketsHaveNothingToDoWithARankWithoutACpu) { EXPECT_EQ(hints_of_starved(1, "net_rx_drops", 500), ""); }

std::string hints_of_lossy(int rank, const std::string& name, const std::string& detail, double per_second,
                           int64_t from_second = 2) {
  MemorySource source = lossy_job();
  MemorySource without = lossy_job();
  count(source, rank, name, detail, per_second, from_second);
  return expect_only_hints(source, without);
}

TEST(Meanwhile, CountersOfBothEndsOfALinkAreTold) {
  EXPECT_EQ(hints_of_lossy(1, "net_rx_drops", "eth0", 100),
            "meanwhile eth0 of node1 counted about 399 received packets dropped (net_rx_drops)\n");
  EXPECT_EQ(hints_of_lossy(2, "softnet_drops", "cpu3", 100),
            "meanwhile node2 counted about 399 packets dropped from a CPU's full queue (softnet_drops)\n");
}

TEST(Meanwhile, CountersOfOtherHostsOrOfOtherThingsAreNotTold) {
  EXPECT_EQ(hints_of_lossy(3, "net_rx_drops", "eth0", 100), "");
  EXPECT_EQ(hints_of_lossy(1, "pressure_memory_some_us", "", 500'000), "");
  EXPECT_EQ(hints_of_lossy(1, "io_read_bytes", "11", 1'000'000), "");
}

TEST(Meanwhile, WhatAHostCountsNowAndThenIsNotTold) {
  EXPECT_EQ(hints_of_lossy(1, "net_rx_drops", "eth0", 0.5), "");
  EXPECT_EQ(hints_of_lossy(1, "softnet_squeezes", "cpu0", 30), "");
  EXPECT_NE(hints_of_lossy(1, "softnet_squeezes", "cpu0", 300), "");
}

/// One stall of half a second late in a recording; rank 1's card drops `usual` packets a second, and `then` more in it.
std::string hints_of_one_stall(double usual, double then) {
  constexpr int64_t kStalled = 90;
  const auto job = [] {
    MemorySource source;
    Ending ending;
    ending.call = [](int rank, int64_t step, Collective& call) {
      const int64_t lost_ns = step == kStalled ? 500 * kNsPerMs : 0;
      call.timestamp_ns += step > kStalled ? 500 * kNsPerMs : 0;
      call.duration_ns = 5 * kNsPerMs + lost_ns - rank * 100 * kNsPerUs;
      return true;
    };
    fill(source, ending);
    connect(source);
    for (const bool in_loss : {true, false}) {
      TcpEvent event{.event_id = make_event_id(node_of(1), in_loss ? 5'000'001 : 5'000'003), .node_id = node_of(1)};
      event.pid = 11;
      event.cookie = kOut;
      event.event = TcpEventKind::kCongestionState;
      event.timestamp_ns = begin_of(kStalled) + (in_loss ? 2 : 499) * kNsPerMs;
      event.state = in_loss ? 4 : 0;
      source.accept(event);
    }
    return source;
  };
  MemorySource source = job();
  MemorySource without = job();
  for (int64_t second = -1; second < 10; ++second) {
    const int64_t time_ns = kOriginNs + second * kNsPerSecond;
    const double value = usual * static_cast<double>(second + 1) + (time_ns > begin_of(kStalled) ? then : 0);
    source.accept(HostSample{node_of(1), time_ns, "net_rx_drops", "eth0", value});
  }
  return expect_only_hints(source, without);
}

TEST(Meanwhile, ACounterThatAlwaysRisesSaysNothing) {
  EXPECT_EQ(hints_of_one_stall(20, 0), "");
  EXPECT_NE(hints_of_one_stall(20, 400), "");
  EXPECT_NE(hints_of_one_stall(0, 20), "");
}

TEST(Meanwhile, CountersAloneMakeNoFinding) {
  MemorySource source;
  fill(source, Ending{});
  connect(source);
  count(source, 1, "net_rx_drops", "eth0", 500);
  count(source, 1, "softnet_drops", "cpu0", 500);
  count(source, 1, "pressure_memory_some_us", "", 900'000);
  EXPECT_TRUE(report_of(source).findings.empty());
}

TEST(OutOfMemory, IsProvenByTheKernelsChoice) {
  for (const bool chosen : {true, false}) {
    MemorySource source;
    Ending ending;
    ending.call = [](int rank, int64_t step, Collective& call) {
      if (step == kSteps - 1) {
        leave_open(call);
      }
      return step < kSteps - 1 || rank != 2;
    };
    ending.process = [&](int rank, Process& process) {
      if (rank == 2) {
        process.exit_ns = kLastArrivalNs - kNsPerMs;
        process.exit_signal = 9;
        process.oom_killed = chosen;
      }
    };
    fill(source, ending);
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, Cause::kDeadRank);
    EXPECT_EQ(finding.culprit->rank, 2);
    EXPECT_EQ(finding.summary.find("out of memory") != std::string::npos, chosen) << finding.summary;
  }
}

struct Spent {
  int32_t tid;
  WaitKind kind;
  int64_t ns;
};

/// Rank 1 comes `late_ns` late from kSlowFrom on, by a call of its thread `tid`; its threads spend that time like this.
Report report_of_late(int64_t late_ns, int32_t tid, const std::vector<Spent>& spent) {
  MemorySource source;
  Ending ending;
  ending.call = [&](int rank, int64_t step, Collective& call) {
    const int64_t late = step >= kSlowFrom ? late_ns : 0;
    call.timestamp_ns = kOriginNs + step * 4 * kStepNs + (rank == 1 ? late : rank * 100 * kNsPerUs);
    call.duration_ns = kOriginNs + step * 4 * kStepNs + late + 5 * kNsPerMs - call.timestamp_ns;
    call.tid = rank == 1 ? tid : call.tid;
    return true;
  };
  fill(source, ending);
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    for (const Spent& part : spent) {
      WaitSpan span{.node_id = node_of(1), .timestamp_ns = kOriginNs + step * 4 * kStepNs, .window_ns = late_ns};
      span.waited_ns = part.ns;
      span.kind = part.kind;
      span.pid = 11;
      span.tid = part.tid;
      source.accept(span);
    }
  }
  return report_of(source);
}

TEST(LateRank, WhoHandsWorkToAPoolsThreadIsLookedAt) {
  constexpr int64_t kLateNs = 60 * kNsPerMs;
  const Report disk =
      report_of_late(kLateNs, 500, {{500, WaitKind::kBlocked, kLateNs}, {11, WaitKind::kDisk, kLateNs - 5 * kNsPerMs}});
  ASSERT_EQ(disk.findings.size(), 1U) << told(disk);
  EXPECT_EQ(disk.findings[0].cause, Cause::kDiskIo) << told(disk);
  EXPECT_EQ(disk.findings[0].culprit->rank, 1);
  const Report own =
      report_of_late(kLateNs, 500, {{500, WaitKind::kOnCpu, kLateNs}, {11, WaitKind::kDisk, kLateNs - 5 * kNsPerMs}});
  ASSERT_EQ(own.findings.size(), 1U) << told(own);
  EXPECT_EQ(own.findings[0].cause, Cause::kLateRank) << "its own work, whatever the first thread waits for";
}

TEST(LateRank, MoreWorkIsLateThoughRanksShareTheirCores) {
  const auto shared = [](int64_t late_ns) {
    const int64_t half = late_ns / 2 + kNsPerMs;
    return report_of_late(late_ns, 11, {{11, WaitKind::kOnCpu, half}, {11, WaitKind::kRunnable, half}});
  };
  const Report late = shared(80 * kNsPerMs);
  ASSERT_EQ(late.findings.size(), 1U) << told(late);
  EXPECT_EQ(late.findings[0].cause, Cause::kLateRank);
  EXPECT_EQ(late.findings[0].culprit->rank, 1);
  EXPECT_TRUE(shared(30 * kNsPerMs).findings.empty()) << "a hiccup of the scheduler looks like that";
}

/// Ranks 0 and 1 meet on a communicator of their own before each step; from kSlowFrom on rank 1 computes for 30 ms
/// before that, so that rank 0 is late for the step as well.
TEST(LateRank, WhoWaitsInAnotherCommunicatorIsNotTheStartOfTheChain) {
  constexpr int64_t kLateNs = 30 * kNsPerMs;
  constexpr CommHash kPair = 99;
  MemorySource source;
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    const int64_t late_ns = step >= kSlowFrom ? kLateNs : 0;
    call.timestamp_ns += rank <= 1 ? late_ns : 0;
    call.duration_ns = 5 * kNsPerMs + (rank <= 1 ? 0 : late_ns);
    return true;
  };
  fill(source, ending);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const int rank : {0, 1}) {
      const int64_t late_ns = step >= kSlowFrom ? kLateNs : 0;
      Collective call = call_of(rank, step, kPair);
      call.nranks = 2;
      call.timestamp_ns = begin_of(step) - 2 * kNsPerMs + (rank == 1 ? late_ns : 0);
      call.duration_ns = kNsPerMs + (rank == 1 ? 0 : late_ns);
      source.accept(call);
      WaitSpan wait{.node_id = node_of(rank), .timestamp_ns = begin_of(step), .window_ns = kLateNs};
      wait.waited_ns = kLateNs;
      wait.kind = rank == 1 ? WaitKind::kOnCpu : WaitKind::kBlocked;
      wait.pid = wait.tid = 10 + rank;
      if (step >= kSlowFrom) {
        source.accept(wait);
      }
    }
  }
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kLateRank);
  ASSERT_TRUE(finding.culprit.has_value());
  EXPECT_EQ(finding.culprit->rank, 1);
  expect_text(finding, "computing");
}

/// All ranks are in the last call, which does not end; each has sent `moving` bytes in each second since.
Finding hang_with_traffic(uint64_t moving) {
  MemorySource source;
  Ending ending;
  ending.call = [](int, int64_t step, Collective& call) {
    if (step == kSteps - 1) {
      leave_open(call);
    }
    return true;
  };
  ending.node = [](int, Node& node) { node.ended_ns = kLastArrivalNs + 20 * kNsPerSecond; };
  fill(source, ending);
  connect(source);
  for (int64_t second = -1; second < 20; ++second) {
    for (int rank = 0; rank < kRanks; ++rank) {
      TcpSample sample{
          .node_id = node_of(rank), .timestamp_ns = kLastArrivalNs + second * kNsPerSecond, .cookie = kOut};
      sample.pid = 10 + rank;
      sample.bytes_acked = 1'000'000 + moving * static_cast<uint64_t>(second + 1);
      source.accept(sample);
    }
  }
  return only(source);
}

TEST(Silence, OfTheWireIsToldWhereAllRanksAreInside) {
  const Finding finding = hang_with_traffic(0);
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_NE(finding.summary.find("All ranks are inside AllReduce number 99"), std::string::npos) << finding.summary;
  EXPECT_NE(finding.summary.find("the wire is silent"), std::string::npos) << finding.summary;
  EXPECT_EQ(hang_with_traffic(5'000).summary.find("silent"), std::string::npos);
}

}  // namespace
}  // namespace stalltrace::analysis
