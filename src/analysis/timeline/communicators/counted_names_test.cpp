// SPDX-License-Identifier: Apache-2.0
// Communicators made before tracing began, whose calls NCCL counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/small_job.h"
#include "analysis/timeline/communicators/communicator_names.h"
#include "lab/simulation/job.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

constexpr CommHash kNccl = 4242;
constexpr CommHash kId = 77;

Communicator made_before(NodeId node, std::optional<int64_t> calls_before) {
  Communicator row{.node_id = node, .pid = 1, .comm_ptr = 9, .nccl_comm_hash = kNccl};
  row.calls_before = calls_before;
  return row;
}

Collective call_on(NodeId node, int64_t seq, Operation op = Operation::kAllReduce) {
  Collective row{.event_id = static_cast<EventId>(node * 100 + seq), .node_id = node, .op = op, .pid = 1};
  row.comm_ptr = 9;
  row.seq = seq;
  return row;
}

/// The names and numbers of the calls, by the order in which they were added.
std::vector<std::pair<CommHash, int64_t>> named_calls(MemorySource& source) {
  std::vector<std::pair<CommHash, int64_t>> calls;
  Result<CommonNames> names = CommonNames::read(source);
  EXPECT_TRUE(names);
  EXPECT_TRUE(names->source().collectives(
      {}, [&](const Collective& row) { calls.emplace_back(row.comm_id_hash, row.seq.value_or(-1)); }));
  return calls;
}

TEST(CountedNames, CallsGetANumberThatRanksShare) {
  MemorySource source;
  source.accept(made_before(1, 1000));
  source.accept(made_before(2, 998));
  source.accept(call_on(1, 0));
  source.accept(call_on(2, 2));
  source.accept(call_on(2, 0, Operation::kSend));
  EXPECT_EQ(named_calls(source), (std::vector<std::pair<CommHash, int64_t>>{{kNccl, 1000}, {kNccl, 1000}, {0, 0}}));
}

TEST(CountedNames, WithoutTheCountOfOneRankNoneHas) {
  MemorySource source;
  source.accept(made_before(1, 1000));
  source.accept(made_before(2, std::nullopt));
  source.accept(call_on(1, 0));
  EXPECT_EQ(named_calls(source), (std::vector<std::pair<CommHash, int64_t>>{{0, 0}}));
}

using Named = std::vector<std::pair<CommHash, int64_t>>;

/// It counts calls that NCCL does not.
TEST(CountedNames, BesideARankThatWasTracedFromTheStartNoneHas) {
  MemorySource source;
  source.accept(made_before(1, 1000));
  Communicator known = made_before(2, std::nullopt);
  known.comm_id_hash = kId;
  source.accept(known);
  source.accept(call_on(1, 0));
  EXPECT_EQ(named_calls(source), (Named{{0, 0}}));
}

TEST(CountedNames, AnAddressThatTwoCommunicatorsHadNamesNone) {
  MemorySource source;
  source.accept(made_before(1, 1000));
  Communicator second = made_before(1, 0);
  second.created_ns = 5;
  second.nccl_comm_hash = kNccl + 1;
  source.accept(second);
  source.accept(call_on(1, 0));
  EXPECT_EQ(named_calls(source), (Named{{0, 0}}));
}

TEST(CountedNames, ARankWhoseCommunicatorIsNotKnownMayBeOfAnyOfItsSize) {
  for (const int32_t size : {2, 4}) {
    MemorySource source;
    Communicator counted = made_before(1, 1000);
    counted.nranks = 2;
    source.accept(counted);
    Communicator other = made_before(2, std::nullopt);
    other.nccl_comm_hash = 0;
    other.nranks = size;
    source.accept(other);
    source.accept(call_on(1, 0));
    EXPECT_EQ(named_calls(source), (size == 2 ? Named{{0, 0}} : Named{{kNccl, 1000}}));
  }
}

TEST(CountedNames, NumbersThatNoJobReachesAreNone) {
  MemorySource source;
  source.accept(made_before(1, INT64_MAX));
  source.accept(call_on(1, 1));
  EXPECT_EQ(named_calls(source), (Named{{0, 1}}));
  source.accept(made_before(1, 7));
  Collective corrupt = call_on(1, 2);
  corrupt.seq = INT64_MAX;
  source.accept(corrupt);
  EXPECT_EQ(named_calls(source), (Named{{kNccl, 8}, {kNccl, INT64_MAX}}));
}

/// A job that was traced after its first third, without the profiler plugin.
MemorySource attached_late(const simulation::Fault& fault) {
  simulation::JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 80, .attach_share = 0.2};
  options.faults = {fault};
  MemorySource source;
  simulation::Job(options).record_all(source);
  return source;
}

TEST(CountedNames, TheRankThatEntersAnotherCallIsNamed) {
  MemorySource source = attached_late({.kind = simulation::FaultKind::kMismatchedCollective, .rank = 5, .from = 60});
  const Report report = small_job::report_of(source);
  ASSERT_EQ(report.findings.size(), 1U) << small_job::reported(report);
  small_job::expect_culprit(report.findings[0], Cause::kMismatchedCollective, 5);
}

/// Few calls are seen before the one that differs.
TEST(CountedNames, AMismatchSoonAfterAttachingIsNamed) {
  MemorySource source = attached_late({.kind = simulation::FaultKind::kMismatchedCollective, .rank = 5, .from = 18});
  const Report report = small_job::report_of(source);
  ASSERT_FALSE(report.findings.empty());
  small_job::expect_culprit(report.findings[0], Cause::kMismatchedCollective, 5);
}

/// Calls of one number that were made at other times are none of one number.
TEST(CountedNames, TimesThatContradictTheCountTakeTheNameAway) {
  MemorySource source = attached_late({.kind = simulation::FaultKind::kMismatchedCollective, .rank = 5, .from = 60});
  std::vector<Communicator> rows = *source.communicators();
  *rows.front().calls_before += 100;
  source.accept(rows.front());
  const Report report = small_job::report_of(source);
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.severity, Severity::kWaiting) << finding.summary;
  }
  EXPECT_TRUE(
      std::ranges::any_of(report.notes, [](const std::string& note) { return note.contains("NCCL's counts"); }));
}

}  // namespace
}  // namespace stalltrace::analysis
