// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/shift/moved_evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "lab/simulation/job.h"
#include "model/memory_source.h"

namespace stalltrace::lab {
namespace {

constexpr int64_t kMovedByNs = 5 * kNsPerSecond;

MemorySource small_recording() {
  simulation::JobOptions options;
  options.ranks_per_node = 2;
  options.steps = 10;
  options.plugin = true;
  options.all_evidence = true;
  options.faults = {{.kind = simulation::FaultKind::kLateRank, .rank = 1, .ms = 400, .from = 5}};
  MemorySource source;
  simulation::Job(options).record_all(source);
  return source;
}

template <typename T>
std::vector<T> rows_in(EventSource& source, TimeRange range = {}) {
  std::vector<T> rows;
  EXPECT_TRUE(source.stream<T>(range, [&](const T& row) { rows.push_back(row); }).has_value());
  return rows;
}

template <typename T>
void expect_moved(EventSource& source, int64_t by_ns) {
  MovedEvidence moved(source, kMovedByNs);
  const std::vector<T> before = rows_in<T>(source);
  const std::vector<T> after = rows_in<T>(moved);
  ASSERT_EQ(before.size(), after.size()) << EventTraits<T>::kTable;
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].timestamp_ns, before[i].timestamp_ns + by_ns) << EventTraits<T>::kTable;
    EXPECT_EQ(after[i].node_id, before[i].node_id) << EventTraits<T>::kTable;
  }
}

TEST(MovedEvidence, CallsAndClocksStayAndAllElseMoves) {
  MemorySource source = small_recording();
  ASSERT_FALSE(rows_in<TcpSample>(source).empty());
  ASSERT_FALSE(rows_in<WaitSpan>(source).empty());
  ASSERT_FALSE(rows_in<HostSample>(source).empty());
  expect_moved<Collective>(source, 0);
  expect_moved<ClockReading>(source, 0);
  expect_moved<TcpEvent>(source, kMovedByNs);
  expect_moved<TcpSample>(source, kMovedByNs);
  expect_moved<WaitSpan>(source, kMovedByNs);
  expect_moved<HostSample>(source, kMovedByNs);
  expect_moved<ProxyStep>(source, kMovedByNs);
  expect_moved<PythonStack>(source, kMovedByNs);
  MovedEvidence moved(source, kMovedByNs);
  EXPECT_EQ(moved.connections()->size(), source.connections()->size());
}

TEST(MovedEvidence, ARangeHasWhatIsInItAfterTheMove) {
  MemorySource source = small_recording();
  MovedEvidence moved(source, kMovedByNs);
  const std::vector<TcpSample> all = rows_in<TcpSample>(moved);
  ASSERT_GE(all.size(), 4U);
  const TimeRange middle = {all[all.size() / 4].timestamp_ns, all[all.size() / 2].timestamp_ns};
  const std::vector<TcpSample> found = rows_in<TcpSample>(moved, middle);
  const auto expected = std::ranges::count_if(all, [&](const TcpSample& row) { return belongs_to(row, middle); });
  EXPECT_GT(expected, 0);
  EXPECT_EQ(std::ssize(found), expected);
  for (const TcpSample& row : found) {
    EXPECT_TRUE(belongs_to(row, middle));
  }
}

}  // namespace
}  // namespace stalltrace::lab
