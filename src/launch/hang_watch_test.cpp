// SPDX-License-Identifier: Apache-2.0
#include "launch/hang_watch.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/clock.h"

namespace stalltrace::launch {
namespace {

class Kept final : public EventSink {
 public:
  void accept(Event event) override { events.push_back(std::move(event)); }
  std::vector<Event> events;
};

Collective all_reduce(EventId id, int64_t at_ns, bool complete) {
  Collective one;
  one.event_id = id;
  one.timestamp_ns = at_ns;
  one.completion = complete ? Completion::kSync : Completion::kOpen;
  return one;
}

TEST(Progress, CountsWhatCompletesAndKnowsTheOldestOpen) {
  Kept kept;
  ProgressSink sink(kept);
  sink.accept(all_reduce(1, 100, false));
  sink.accept(all_reduce(2, 50, false));
  sink.accept(all_reduce(1, 100, false));  // second row: its call has returned
  EXPECT_EQ(sink.progress().open, 2U);
  EXPECT_EQ(sink.progress().oldest_open_ns, 50);
  sink.accept(all_reduce(2, 50, true));
  EXPECT_EQ(sink.progress().completed, 1U);
  EXPECT_EQ(sink.progress().oldest_open_ns, 100);
  sink.accept(all_reduce(1, 100, true));
  sink.accept(all_reduce(3, 150, true));  // a call that was never seen open
  EXPECT_EQ(sink.progress().completed, 3U);
  EXPECT_EQ(sink.progress().oldest_open_ns, std::nullopt);
  EXPECT_EQ(kept.events.size(), 6U);
}

TEST(Progress, KnowsWhetherAProfilerFileHasRows) {
  for (const auto& [completion, reported] :
       {std::pair(Completion::kOpen, false), std::pair(Completion::kSync, false),
        std::pair(Completion::kNetwork, false), std::pair(Completion::kProfiler, true),
        std::pair(Completion::kUnobserved, false)}) {
    Kept kept;
    ProgressSink sink(kept);
    Collective one = all_reduce(1, 100, true);
    one.completion = completion;
    sink.accept(one);
    EXPECT_EQ(sink.has_profiler_rows(), reported) << to_text(completion);
  }
}

TEST(Progress, KnowsWhetherNcclWasCalled) {
  Kept kept;
  ProgressSink sink(kept);
  EXPECT_FALSE(sink.only_other_libraries()) << "nothing was called";
  for (const Library other : {Library::kGloo, Library::kMpi}) {
    Collective one = all_reduce(1, 100, true);
    one.library = other;
    sink.accept(one);
    EXPECT_TRUE(sink.only_other_libraries());
  }
  for (const Library plugged : {Library::kNccl, Library::kRccl}) {
    ProgressSink mixed(kept);
    Collective one = all_reduce(1, 100, true);
    one.library = Library::kGloo;
    mixed.accept(one);
    one.library = plugged;
    mixed.accept(one);
    EXPECT_FALSE(mixed.only_other_libraries());
  }
}

TEST(Progress, AGroupIsNoCollective) {
  Kept kept;
  ProgressSink sink(kept);
  Collective group = all_reduce(1, 100, false);
  group.op = Operation::kGroup;
  sink.accept(group);
  EXPECT_EQ(sink.progress().open, 0U);
  EXPECT_EQ(kept.events.size(), 1U);
}

constexpr int64_t kLimit = 10 * kNsPerSecond;

using News = HangWatch::News;

TEST(HangWatch, ReportsWhenNothingCompletesWhileSomethingIsOpenAndAgainLater) {
  HangWatch watch(kLimit);
  const Progress open{.completed = 5, .open = 1, .oldest_open_ns = 0};
  EXPECT_EQ(watch.look(open, kNsPerSecond), News::kNone);
  EXPECT_EQ(watch.look(open, kLimit), News::kNone);
  EXPECT_EQ(watch.look(open, kLimit + kNsPerSecond), News::kStandsStill);
  EXPECT_EQ(watch.still_ns(), kLimit);
  EXPECT_EQ(watch.look(open, 2 * kLimit), News::kNone) << "reported already";
  EXPECT_EQ(watch.look(open, HangWatch::kAgain * kLimit + kNsPerSecond), News::kStillStands);
}

/// What kind of wait it is may show after minutes only (analysis/thresholds/hangs.h).
TEST(HangWatch, AHangIsReportedAgainForAsLongAsItLasts) {
  constexpr int64_t kShort = 3 * kNsPerSecond;
  HangWatch watch(kShort);
  const Progress open{.completed = 5, .open = 1, .oldest_open_ns = 0};
  std::vector<int64_t> at_s;
  for (int64_t now_s = 0; now_s <= 3600; ++now_s) {
    if (const News news = watch.look(open, now_s * kNsPerSecond); news != News::kNone) {
      EXPECT_EQ(news == News::kStandsStill, at_s.empty());
      at_s.push_back(now_s);
    }
  }
  ASSERT_GE(at_s.size(), 8U);
  EXPECT_EQ(std::vector(at_s.begin(), at_s.begin() + 8), (std::vector<int64_t>{3, 30, 60, 120, 240, 360, 480, 600}));
  EXPECT_LE(at_s.size(), 33U);
}

TEST(HangWatch, ALongLimitIsTheLongestPauseToo) {
  constexpr int64_t kLong = 600 * kNsPerSecond;
  HangWatch watch(kLong);
  const Progress open{.completed = 5, .open = 1, .oldest_open_ns = 0};
  watch.look(open, 0);
  EXPECT_EQ(watch.look(open, kLong), News::kStandsStill);
  EXPECT_EQ(watch.look(open, 2 * kLong - 1), News::kNone);
  EXPECT_EQ(watch.look(open, 2 * kLong), News::kStillStands);
}

TEST(HangWatch, ExplanationsThatTakeLongComeMoreRarely) {
  HangWatch watch(kLimit);
  const Progress open{.completed = 5, .open = 1, .oldest_open_ns = 0};
  watch.look(open, 0);
  ASSERT_EQ(watch.look(open, kLimit), News::kStandsStill);
  constexpr int64_t kTook = 60 * kNsPerSecond;
  watch.explained(kTook);
  const int64_t ended_ns = kLimit + kTook;
  EXPECT_EQ(watch.look(open, ended_ns + HangWatch::kPausePerCost * kTook - 1), News::kNone);
  EXPECT_EQ(watch.look(open, ended_ns + HangWatch::kPausePerCost * kTook), News::kStillStands);
  watch.explained(kNsPerMs);
  EXPECT_EQ(watch.look(open, ended_ns + HangWatch::kPausePerCost * kTook + HangWatch::kLongestPauseNs),
            News::kStillStands);
}

TEST(HangWatch, ReportsThatTheJobGoesOnAndTheNextHang) {
  HangWatch watch(kLimit);
  Progress open{.completed = 5, .open = 1, .oldest_open_ns = 0};
  watch.look(open, 0);
  ASSERT_EQ(watch.look(open, kLimit), News::kStandsStill);
  open = {.completed = 6, .open = 1, .oldest_open_ns = kLimit};
  EXPECT_EQ(watch.look(open, kLimit + kNsPerSecond), News::kGoesOn);
  EXPECT_EQ(watch.still_ns(), kLimit + kNsPerSecond);
  open.completed = 7;
  EXPECT_EQ(watch.look(open, kLimit + 2 * kNsPerSecond), News::kNone) << "nothing to take back";
  EXPECT_EQ(watch.look(open, 2 * kLimit + 2 * kNsPerSecond), News::kStandsStill);
}

TEST(HangWatch, AJobThatComputesOrGetsOnDoesNotHang) {
  HangWatch watch(kLimit);
  EXPECT_EQ(watch.look({.completed = 5, .open = 0, .oldest_open_ns = {}}, 0), News::kNone);
  EXPECT_EQ(watch.look({.completed = 5, .open = 0, .oldest_open_ns = {}}, 9 * kLimit), News::kNone);
  EXPECT_EQ(watch.look({.completed = 6, .open = 1, .oldest_open_ns = 0}, 10 * kLimit), News::kNone)
      << "others complete";
}

TEST(Progress, ARowThatComesAgainIsNoProgress) {
  Kept kept;
  ProgressSink sink(kept);
  sink.accept(all_reduce(1, 100, false));
  for (int n = 0; n < 3; ++n) {
    sink.accept(all_reduce(2, 50, true));
  }
  EXPECT_EQ(sink.progress().completed, 1U);
  EXPECT_EQ(kept.events.size(), 4U);
}

}  // namespace
}  // namespace stalltrace::launch
