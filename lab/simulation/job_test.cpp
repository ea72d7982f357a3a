// SPDX-License-Identifier: Apache-2.0
// The model of jobs: the same seed gives the same rows, and the rows are those of a job that could have run.
#include "lab/simulation/job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "lab/simulation/draw.h"
#include "lab/simulation/shapes.h"
#include "model/memory_source.h"

namespace stalltrace::simulation {
namespace {

JobOptions small(std::string_view shape) {
  JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 8};
  EXPECT_TRUE(apply_shape(shape, options).has_value());
  return options;
}

std::vector<Collective> calls_of(const JobOptions& options) {
  MemorySource source;
  Job(options).record_all(source);
  std::vector<Collective> calls;
  EXPECT_TRUE(source.collectives({}, [&](const Collective& row) { calls.push_back(row); }).has_value());
  return calls;
}

std::vector<std::tuple<EventId, int64_t, int64_t>> times_of(const JobOptions& options) {
  std::vector<std::tuple<EventId, int64_t, int64_t>> times;
  for (const Collective& row : calls_of(options)) {
    times.emplace_back(row.event_id, row.timestamp_ns, row.duration_ns.value_or(-1));
  }
  return times;
}

std::set<int32_t> ranks_with_open_calls(const std::vector<Collective>& calls) {
  std::set<int32_t> ranks;
  for (const Collective& row : calls) {
    if (row.completion == Completion::kOpen) {
      ranks.insert(*row.rank);
    }
  }
  return ranks;
}

TEST(SimulatedJob, IsTheSameForOneSeed) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    JobOptions options = small(shape.name);
    const auto first = times_of(options);
    EXPECT_FALSE(first.empty());
    EXPECT_EQ(first, times_of(options));
    options.seed = 2;
    EXPECT_NE(first, times_of(options));
  }
}

TEST(SimulatedJob, CanHaveOneRankOnEachNode) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    JobOptions options{.nodes = 4, .ranks_per_node = 1, .steps = 4};
    ASSERT_TRUE(apply_shape(shape.name, options).has_value());
    EXPECT_FALSE(times_of(options).empty());
  }
}

/// All ranks of an instance call the same, and none of them is done before the last has come.
TEST(SimulatedJob, HasCollectivesOfAllTheirRanks) {
  struct Seen {
    int64_t last_arrival_ns = 0;
    int64_t first_end_ns = INT64_MAX;
    std::set<std::pair<Operation, int64_t>> what;
    std::set<int32_t> ranks;
    int32_t nranks = 0;
  };
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    JobOptions options = small(shape.name);
    options.plugin = true;
    options.restart_at = 0;
    std::map<std::pair<CommHash, int64_t>, Seen> instances;
    int64_t sends = 0;
    int64_t receives = 0;
    for (const Collective& row : calls_of(options)) {
      sends += row.op == Operation::kSend ? 1 : 0;
      receives += row.op == Operation::kRecv ? 1 : 0;
      if (!is_collective(row.op)) {
        continue;
      }
      Seen& seen = instances[{row.comm_id_hash, *row.seq}];
      seen.last_arrival_ns = std::max(seen.last_arrival_ns, *row.kernel_start_ns);
      seen.first_end_ns = std::min(seen.first_end_ns, *row.end_ns());
      seen.what.emplace(row.op, *row.count);
      seen.ranks.insert(*row.rank);
      seen.nranks = *row.nranks;
    }
    EXPECT_FALSE(instances.empty());
    EXPECT_EQ(sends, receives);
    for (const auto& [id, seen] : instances) {
      EXPECT_EQ(seen.what.size(), 1U);
      EXPECT_EQ(seen.ranks.size(), static_cast<size_t>(seen.nranks));
      EXPECT_GT(seen.first_end_ns, seen.last_arrival_ns);
    }
  }
}

TEST(SimulatedJob, IsRecordedFromTheAttachmentToTheCut) {
  JobOptions options = small("ddp");
  const size_t all = calls_of(options).size();
  options.attach_s = 0.5;
  const std::vector<Collective> later = calls_of(options);
  EXPECT_LT(later.size(), all);
  EXPECT_FALSE(later.empty());
  EXPECT_TRUE(std::ranges::all_of(later, [](const Collective& row) { return row.comm_id_hash == 0; }));
  options.attach_s = 0;
  options.cut_share = 0.5;
  const std::vector<Collective> cut = calls_of(options);
  EXPECT_LT(cut.size(), all);
  const int64_t cut_ns = Job(options).recorded_to_ns() + 200 * kNsPerMs;
  EXPECT_TRUE(std::ranges::all_of(
      cut, [&](const Collective& row) { return row.timestamp_ns < cut_ns && row.end_ns().value_or(0) < cut_ns; }));
}

TEST(SimulatedJob, HasAClockOnEachNode) {
  JobOptions options = small("ddp");
  const std::vector<Collective> right = calls_of(options);
  options.clock_error_ms = 50;
  const std::vector<Collective> wrong = calls_of(options);
  ASSERT_EQ(right.size(), wrong.size());
  std::map<EventId, int64_t> times;
  for (const Collective& row : right) {
    times[row.event_id] = row.timestamp_ns;
  }
  std::map<NodeId, std::set<int64_t>> errors_ms;
  for (const Collective& row : wrong) {
    const int64_t error_ns = row.timestamp_ns - times.at(row.event_id);
    EXPECT_LE(std::abs(error_ns), 51 * kNsPerMs);
    errors_ms[row.node_id].insert(error_ns / kNsPerMs);
  }
  EXPECT_LE(errors_ms[1].size(), 2U);
  EXPECT_NE(errors_ms[1], errors_ms[2]);
}

TEST(SimulatedJob, AClockOfANodeCanBeAheadAndDrift) {
  JobOptions options = small("ddp");
  const std::vector<Collective> right = calls_of(options);
  options.clocks = {{1, {.ahead_s = 5, .drift_ppm = 50}}};
  const std::vector<Collective> wrong = calls_of(options);
  ASSERT_EQ(right.size(), wrong.size());
  std::map<EventId, int64_t> times;
  for (const Collective& row : right) {
    times[row.event_id] = row.timestamp_ns;
  }
  for (const Collective& row : wrong) {
    const int64_t true_ns = times.at(row.event_id);
    const int64_t ahead_ns = row.node_id == Job::node_id(1) ? 5 * kNsPerSecond + (true_ns - kOriginNs) / 20'000 : 0;
    EXPECT_NEAR(static_cast<double>(row.timestamp_ns - true_ns), static_cast<double>(ahead_ns), 1);
  }
  const Job job(options);
  EXPECT_EQ(job.clock(1).at(kOriginNs), kOriginNs + 5 * kNsPerSecond);
  EXPECT_EQ(job.clock(0).at(kOriginNs), kOriginNs);
  const int64_t passed_ns = job.monotonic_ns(1, kOriginNs + 20 * kNsPerSecond) - job.monotonic_ns(1, kOriginNs);
  EXPECT_NEAR(static_cast<double>(passed_ns), static_cast<double>(20 * kNsPerSecond + kNsPerMs), 1);
}

TEST(SimulatedJob, HangsWhereARankIsGone) {
  for (const char* fault :
       {"dead_rank:rank=5", "missing_collective:rank=5", "process_stopped:rank=5", "mismatched_collective:rank=5"}) {
    SCOPED_TRACE(fault);
    JobOptions options = small("ddp");
    options.faults = {parse_fault(fault, options).value()};
    const Job job(options);
    EXPECT_TRUE(job.history().hung);
    ASSERT_EQ(job.history().effects.size(), 1U);
    const std::set<int32_t> open = ranks_with_open_calls(calls_of(options));
    EXPECT_GE(open.size(), 7U);
  }
}

TEST(SimulatedJob, HangsWhereARankCrossesTwoCommunicators) {
  JobOptions options = small("tp-pp-dp");
  options.faults = {parse_fault("missing_collective:rank=5,how=order", options).value()};
  const Job job(options);
  EXPECT_TRUE(job.history().hung);
  ASSERT_EQ(job.history().effects.size(), 1U);
  EXPECT_GE(ranks_with_open_calls(calls_of(options)).size(), 7U);
  EXPECT_FALSE(parse_fault("missing_collective:rank=5,how=order", small("ddp")).has_value());
  EXPECT_FALSE(parse_fault("late_rank:rank=5,how=order", options).has_value());
}

TEST(SimulatedJob, LosesTheTimeOfItsFault) {
  JobOptions options = small("ddp");
  options.network_events = false;
  const auto length_ns = [](const JobOptions& with) {
    const History history = Job(with).history();
    return history.ended_ns - history.first_step_ns;
  };
  const int64_t healthy_ns = length_ns(options);
  for (const char* fault : {"late_rank:rank=5,ms=80,from=4", "slow_device:rank=5,ms=80,from=4"}) {
    SCOPED_TRACE(fault);
    JobOptions with = options;
    with.faults = {parse_fault(fault, with).value()};
    EXPECT_NEAR(static_cast<double>(length_ns(with) - healthy_ns), 4 * 80e6, 0.2 * 4 * 80e6);
  }
  for (const char* fault : {"slow_link:node=1,factor=20", "fabric_errors:node=1,factor=20", "congestion:factor=20"}) {
    SCOPED_TRACE(fault);
    JobOptions slow = options;
    slow.faults = {parse_fault(fault, slow).value()};
    EXPECT_GT(length_ns(slow), healthy_ns + kNsPerSecond);
  }
}

TEST(SimulatedJob, RefusesWhatItDoesNotHave) {
  JobOptions options = small("ddp");
  for (const char* text : {"cosmic_ray", "late_rank:rank=8", "late_rank:node=1", "late_rank:rank", "late_rank:ms=x",
                           "slow_link:rank=1", "late_rank:how=dreaming", ""}) {
    EXPECT_FALSE(parse_fault(text, options).has_value()) << text;
  }
  EXPECT_FALSE(apply_shape("square", options).has_value());
  for (const char* text : {"tp=2", "tp=2,pp=2,dp=0", "tp=2,pp=2,xp=2", "tp", ""}) {
    EXPECT_FALSE(apply_parallel(text, options).has_value()) << text;
  }
  EXPECT_TRUE(apply_parallel("tp=2,pp=2,dp=2", options).has_value());
  EXPECT_FALSE(calls_of(options).empty());
}

}  // namespace
}  // namespace stalltrace::simulation
