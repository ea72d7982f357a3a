// SPDX-License-Identifier: Apache-2.0
#include "model/waits/wait_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace stalltrace {
namespace {

struct Visited {
  int64_t begin_ns;
  int64_t window_ns;
  bool open;
  int64_t over_ns;
  bool operator==(const Visited&) const = default;
};

WaitSpan wait(int64_t begin_ns, int64_t window_ns, bool open, int32_t tid = 7) {
  return {.node_id = 1, .timestamp_ns = begin_ns, .window_ns = window_ns, .open = open, .pid = 5, .tid = tid};
}

std::vector<Visited> visited(const std::vector<WaitSpan>& rows) {
  std::vector<Visited> all;
  WaitRows waits([&](const WaitSpan& row, int64_t over_ns) {
    all.push_back({row.timestamp_ns, row.window_ns, row.open, over_ns});
  });
  for (const WaitSpan& row : rows) {
    waits.add(row);
  }
  waits.finish();
  return all;
}

using All = std::vector<Visited>;

TEST(WaitRows, AnEndedRowReplacesTheOpenOnesOfItsWait) {
  EXPECT_EQ(visited({wait(10, 5, true), wait(10, 8, true), wait(10, 9, false)}), (All{{10, 9, false, kForever}}));
  EXPECT_EQ(visited({wait(10, 9, false), wait(10, 5, true)}), (All{{10, 9, false, kForever}}));
}

TEST(WaitRows, TheLongestOpenRowCounts) {
  EXPECT_EQ(visited({wait(10, 5, true), wait(10, 8, true), wait(10, 6, true)}), (All{{10, 8, true, kForever}}));
}

TEST(WaitRows, AnOpenWaitIsOverWhenTheNextOfItsThreadBegins) {
  EXPECT_EQ(visited({wait(10, 5, true), wait(12, 1, false, 8), wait(30, 2, false), wait(40, 3, true)}),
            (All{{12, 1, false, kForever}, {10, 5, true, 30}, {30, 2, false, kForever}, {40, 3, true, kForever}}));
}

TEST(WaitRows, ThreadsOfTwoNodesAreTwo) {
  WaitSpan other = wait(30, 2, false);
  other.node_id = 2;
  EXPECT_EQ(visited({wait(10, 5, true), other}), (All{{30, 2, false, kForever}, {10, 5, true, kForever}}));
}

TEST(WaitRows, MemoryIsBounded) {
  int64_t open = 0;
  int64_t for_ever = 0;
  WaitRows waits([&](const WaitSpan& /*row*/, int64_t over_ns) {
    ++open;
    for_ever += over_ns == kForever ? 1 : 0;
  });
  constexpr int32_t kThreads = 200'000;
  for (int32_t tid = 1; tid <= kThreads; ++tid) {
    waits.add(wait(tid, 5, true, tid));
  }
  EXPECT_GT(open, 100'000);
  EXPECT_EQ(for_ever, 0) << "a row of its end may follow";
  waits.finish();
  EXPECT_EQ(open, kThreads);
}

TEST(WaitRows, ThreadsWhoseWaitsHaveEndedTakeNoRoom) {
  std::vector<Visited> visits;
  WaitRows waits([&](const WaitSpan& row, int64_t over_ns) {
    if (row.tid == 1) {
      visits.push_back({row.timestamp_ns, row.window_ns, row.open, over_ns});
    }
  });
  waits.add(wait(10, 5, true, 1));
  for (int32_t tid = 2; tid <= 100'000; ++tid) {
    waits.add(wait(10 + tid, 5, false, tid));
  }
  waits.add(wait(10, 150'000, false, 1));
  waits.finish();
  EXPECT_EQ(visits, (All{{10, 150'000, false, kForever}}));
}

}  // namespace
}  // namespace stalltrace
