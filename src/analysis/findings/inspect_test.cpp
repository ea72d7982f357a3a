// SPDX-License-Identifier: Apache-2.0
// Inspections of single instances of synthetic jobs.
#include "analysis/findings/inspect.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "analysis/explain.h"
#include "analysis/testing/small_job.h"
#include "analysis/testing/synthetic_cluster.h"

namespace stalltrace::analysis {
namespace {

Inspection inspect(MemorySource& source, EventId id) {
  const Result<ExplainResult> result = explain(source, {.instance = id});
  EXPECT_TRUE(result && result->inspection);
  return result && result->inspection ? *result->inspection : Inspection{};
}

const InspectedCause* chosen_of(const InspectedPart& part) {
  const auto found =
      std::find_if(part.causes.begin(), part.causes.end(), [](const auto& cause) { return cause.chosen; });
  return found == part.causes.end() ? nullptr : &*found;
}

const InspectedPart* part_called(const Inspection& inspection, const std::string& name) {
  const auto found = std::find_if(inspection.parts.begin(), inspection.parts.end(),
                                  [&](const auto& part) { return part.name == name; });
  return found == inspection.parts.end() ? nullptr : &*found;
}

/// The call of `rank` with the longest duration after warm-up.
EventId longest_call(MemorySource& source, int32_t rank) {
  Collective longest;
  EXPECT_TRUE(source
                  .collectives({},
                               [&](const Collective& row) {
                                 if (row.rank == rank && row.seq.value_or(0) > 8 &&
                                     row.duration_ns.value_or(0) > longest.duration_ns.value_or(0)) {
                                   longest = row;
                                 }
                               })
                  .has_value());
  return longest.event_id;
}

void expect_every_cause(const InspectedPart& part) {
  for (const CauseRule& rule : cause_rules()) {
    const auto reported = std::find_if(part.causes.begin(), part.causes.end(),
                                       [&](const InspectedCause& cause) { return cause.cause == rule.cause; });
    if (rule.cause != Cause::kUnknown) {
      ASSERT_NE(reported, part.causes.end()) << to_text(rule.cause);
      EXPECT_FALSE(reported->text.empty()) << to_text(rule.cause);
    }
  }
}

TEST(Inspect, ASlowTransferNamesItsLikeItsSplitAndItsCause) {
  JobOptions options{.seed = 2};
  options.faults = {{.kind = FaultKind::kPacketLoss, .rank = 1}};
  SyntheticJob job(options);
  const Inspection seen = inspect(job.source(), longest_call(job.source(), 0));
  EXPECT_EQ(seen.calls.size(), 4U);
  EXPECT_GT(seen.like.count, 100);
  EXPECT_TRUE(seen.like.enough);
  EXPECT_GT(seen.like.median_ns, 0);
  EXPECT_GT(seen.like.limit_ns, seen.like.usual_ns);
  ASSERT_TRUE(seen.split.has_value());
  EXPECT_LT(*seen.split, 0.5);
  const InspectedPart* transfer = part_called(seen, "transfer");
  ASSERT_NE(transfer, nullptr);
  EXPECT_TRUE(transfer->stall);
  EXPECT_EQ(transfer->finding, 1);
  ASSERT_NE(chosen_of(*transfer), nullptr);
  EXPECT_EQ(chosen_of(*transfer)->cause, Cause::kPacketLoss);
  expect_every_cause(*transfer);
}

TEST(Inspect, ALateRankIsOneSide) {
  JobOptions options{.seed = 2};
  options.faults = {{.kind = FaultKind::kLateRank, .rank = 1}};
  SyntheticJob job(options);
  const Inspection seen = inspect(job.source(), longest_call(job.source(), 0));
  const InspectedPart* late = part_called(seen, "late");
  ASSERT_NE(late, nullptr);
  EXPECT_TRUE(late->stall);
  ASSERT_NE(chosen_of(*late), nullptr);
  EXPECT_EQ(chosen_of(*late)->cause, Cause::kLateRank);
  EXPECT_EQ(seen.calls.back().who.substr(0, 6), "rank 1");
  ASSERT_TRUE(seen.split.has_value());
  EXPECT_GT(*seen.split, 0.5);
}

TEST(Inspect, AnOrdinaryInstanceIsNoStallAndStillHasOpinions) {
  SyntheticJob job({.seed = 3, .noise = false});
  EventId some = 0;
  ASSERT_TRUE(job.source()
                  .collectives({}, [&](const Collective& row) { some = row.seq == 100 ? row.event_id : some; })
                  .has_value());
  const Inspection seen = inspect(job.source(), some);
  EXPECT_EQ(seen.number, 100);
  ASSERT_FALSE(seen.parts.empty());
  for (const InspectedPart& part : seen.parts) {
    EXPECT_FALSE(part.stall);
    EXPECT_EQ(chosen_of(part), nullptr);
    EXPECT_FALSE(part.finding.has_value());
    expect_every_cause(part);
  }
}

TEST(Inspect, AHangSaysWhoDidNotCome) {
  MemorySource source;
  small_job::fill(source, small_job::hang({2}));
  const Inspection seen = inspect(source, small_job::call_of(0, small_job::kSteps - 1).event_id);
  EXPECT_FALSE(seen.transfer_ns.has_value());
  ASSERT_EQ(seen.absent.size(), 1U);
  EXPECT_EQ(seen.absent[0].substr(0, 6), "rank 2");
  const InspectedPart* absent = part_called(seen, "absent");
  ASSERT_NE(absent, nullptr);
  EXPECT_EQ(chosen_of(*absent)->cause, Cause::kMissingCollective);
}

TEST(Inspect, AStallOutsideOfTheRangeIsReportedToBeThere) {
  MemorySource source;
  small_job::fill(source, small_job::hang({2}));
  const EventId call = small_job::call_of(0, small_job::kSteps - 1).event_id;
  const TimeWindow before{.to = TimePoint{small_job::begin_of(50)}};
  const Result<ExplainResult> result = explain(source, {.window = before, .instance = call});
  ASSERT_TRUE(result && result->inspection);
  EXPECT_TRUE(result->report.healthy);
  EXPECT_TRUE(result->inspection->outside_range);
  const InspectedPart* absent = part_called(*result->inspection, "absent");
  ASSERT_NE(absent, nullptr);
  EXPECT_FALSE(absent->stall);
  EXPECT_EQ(absent->reason, VerdictReason::kOutsideRange);
  const TimeWindow with{.from = TimePoint{small_job::begin_of(50)}};
  const Result<ExplainResult> inside = explain(source, {.window = with, .instance = call});
  ASSERT_TRUE(inside && inside->inspection);
  EXPECT_FALSE(inside->inspection->outside_range);
  EXPECT_TRUE(part_called(*inside->inspection, "absent")->stall);
}

TEST(Inspect, AWaitForASendIsJudgedByWhatIsUsualForThePair) {
  small_job::Ending ending;
  ending.call = [](int rank, int64_t, Collective& call) {
    call.op = rank == 0 ? Operation::kSend : Operation::kRecv;
    call.peer = 1 - rank;
    call.timestamp_ns += rank == 0 ? 30 * kNsPerMs : 0;
    return rank < 2;
  };
  MemorySource source;
  small_job::fill(source, ending);
  const Inspection seen = inspect(source, small_job::call_of(1, 50).event_id);
  const InspectedPart* late = part_called(seen, "late");
  ASSERT_NE(late, nullptr);
  EXPECT_FALSE(late->stall);
  EXPECT_EQ(late->reason, VerdictReason::kPairUsual);
  EXPECT_GT(late->limit_ns, 40 * kNsPerMs);
  EXPECT_EQ(seen.like.late_limit_ns, late->limit_ns);
}

/// Two pairs of ranks, each with its communicator, hang from the same time on, each for want of another rank.
TEST(Inspect, StallsOfOneIntervalHaveTheirOwnFindings) {
  small_job::Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    call.timestamp_ns = small_job::begin_of(step);
    call.comm_id_hash += static_cast<CommHash>(rank / 2);
    call.nranks = 2;
    call.rank = rank % 2;
    if (step == small_job::kSteps - 1) {
      small_job::leave_open(call);
      return rank % 2 == 0;
    }
    return true;
  };
  MemorySource source;
  small_job::fill(source, ending);
  for (const int rank : {0, 2}) {
    const EventId call = small_job::call_of(rank, small_job::kSteps - 1).event_id;
    const Result<ExplainResult> result = explain(source, {.instance = call});
    ASSERT_TRUE(result && result->inspection);
    ASSERT_EQ(result->report.findings.size(), 2U) << small_job::reported(result->report);
    const InspectedPart* absent = part_called(*result->inspection, "absent");
    ASSERT_TRUE(absent != nullptr && absent->finding);
    const Finding& finding = result->report.findings.at(static_cast<size_t>(*absent->finding - 1));
    small_job::expect_culprit(finding, Cause::kMissingCollective, rank + 1);
  }
}

TEST(Inspect, AnEventThatIsNotThereIsAnError) {
  MemorySource source;
  small_job::fill(source, {});
  const Result<ExplainResult> result = explain(source, {.instance = make_event_id(1, 999'999)});
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().what.find("node0:999999"), std::string::npos);
}

}  // namespace
}  // namespace stalltrace::analysis
