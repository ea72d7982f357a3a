// SPDX-License-Identifier: Apache-2.0
#include "capture/python/late_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace stalltrace::capture {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kStart = 1000 * kNsPerSecond;
constexpr int64_t kStep = 100 * kNsPerMs;

CallStanding standing(int32_t pid, bool inside, int64_t entered_ns, int64_t ended_ns = 0) {
  return {.pid = pid, .inside = inside, .entered_ns = entered_ns, .ended_ns = ended_ns, .usual_gap_ns = 10 * kNsPerMs};
}

class LateWatchTest : public testing::Test {
 protected:
  /// The times of its samples, relative to kStart, with constant standings.
  std::vector<int64_t> samples(std::span<const CallStanding> standings, int64_t for_ns, int64_t from_ns = 0) {
    std::vector<int64_t> at;
    for (int64_t now_ns = from_ns; now_ns <= for_ns; now_ns += kStep) {
      if (!watch_.choose(standings, kStart + now_ns).empty()) {
        at.push_back(now_ns);
      }
    }
    return at;
  }
  LateWatch watch_;
};

TEST_F(LateWatchTest, WhoIsAwaitedComesFirst) {
  const std::vector<CallStanding> job{standing(10, true, kStart), standing(11, false, kStart - kStep, kStart - kStep),
                                      standing(12, true, kStart)};
  EXPECT_THAT(watch_.choose(job, kStart + kStep), IsEmpty()) << "ranks scatter";
  EXPECT_THAT(watch_.choose(job, kStart + 2 * kStep), ElementsAre(11, 10, 12));
}

/// Calls that only launch return at once, and end together when the program synchronises: rank 0 is inside a
/// synchronisation after its fifth call, rank 1 did not launch the second.
TEST_F(LateWatchTest, ARankThatLaunchesLaterThanOthersIsAwaited) {
  const auto launched = [](int32_t pid, int64_t seq, int64_t entered_ns) {
    CallStanding one = standing(pid, true, entered_ns);
    one.launched = true;
    one.communicator = 7;
    one.seq = seq;
    return one;
  };
  const std::vector<CallStanding> job{launched(10, 5, kStart), launched(11, 1, kStart - kStep)};
  EXPECT_THAT(watch_.choose(job, kStart + kStep), IsEmpty()) << "it may come";
  EXPECT_THAT(watch_.choose(job, kStart + 2 * kStep), ElementsAre(11, 10));
  std::vector<CallStanding> running{launched(10, 5, kStart), launched(11, 4, kStart + kNsPerSecond)};
  EXPECT_THAT(watch_.choose(running, kStart + kNsPerSecond + kStep), IsEmpty()) << "it launches all the time";
  std::vector<CallStanding> level{launched(10, 5, kStart), launched(11, 5, kStart + kStep)};
  EXPECT_THAT(watch_.choose(level, kStart + kNsPerSecond), IsEmpty()) << "both wait for their devices";
  std::vector<CallStanding> apart{launched(10, 5, kStart), launched(11, 1, kStart - kStep)};
  std::vector<CallStanding> receives = apart;
  receives[1].waits_by_design = true;
  EXPECT_THAT(watch_.choose(receives, kStart + kNsPerSecond), IsEmpty()) << "a Recv is counted by pairs of ranks";
  apart[1].communicator = 8;
  EXPECT_THAT(watch_.choose(apart, kStart + kNsPerSecond), IsEmpty()) << "numbers of other communicators";
}

/// Steps longer than kLateNs: all ranks compute, then enter their call within 100 ms.
TEST_F(LateWatchTest, AJobThatGetsOnIsLeftAlone) {
  constexpr int64_t kStepNs = 4 * LateWatch::kLateNs;
  const auto call = [](int32_t pid, int64_t now_ns, int64_t entry_ns) {
    const int64_t begun_ns = now_ns / kStepNs * kStepNs;  // the calls of a step end at its begin
    const bool inside = now_ns >= begun_ns + entry_ns;
    return CallStanding{.pid = pid,
                        .inside = inside,
                        .entered_ns = kStart + begun_ns + entry_ns - (inside ? 0 : kStepNs),
                        .ended_ns = kStart + begun_ns,
                        .usual_gap_ns = kStepNs};
  };
  constexpr int64_t kFirstNs = kStepNs - 120 * kNsPerMs;
  constexpr int64_t kLastNs = kStepNs - 20 * kNsPerMs;
  for (int64_t now_ns = kStepNs; now_ns < 60 * kNsPerSecond; now_ns += 10 * kNsPerMs) {
    const std::vector<CallStanding> job{call(10, now_ns, kFirstNs), call(11, now_ns, kLastNs)};
    ASSERT_THAT(watch_.choose(job, kStart + now_ns), IsEmpty()) << now_ns;
  }
  // With the same steps, a rank that stays away is seen.
  const int64_t now_ns = 60 * kNsPerSecond + kStepNs;
  const std::vector<CallStanding> late{standing(10, true, kStart + now_ns - kStepNs, kStart + now_ns - 2 * kStepNs),
                                       call(11, now_ns - kStepNs, kLastNs)};
  EXPECT_THAT(watch_.choose(late, kStart + now_ns), ElementsAre(11, 10));
}

/// All ranks step in 5 ms. Rank 11 pauses at the beginning of each second, rank 12 with it if `two`.
std::vector<CallStanding> pausing(int64_t now_ns, int64_t pause_ns, bool two = false) {
  constexpr int64_t kCallNs = 5 * kNsPerMs;
  const int64_t begun_ns = now_ns / kNsPerSecond * kNsPerSecond;
  const int64_t newest_ns = now_ns / kCallNs * kCallNs;
  const auto between_calls = [&](int32_t pid) { return standing(pid, false, newest_ns, newest_ns); };
  if (now_ns - begun_ns >= pause_ns) {
    return {between_calls(10), between_calls(11), between_calls(12)};
  }
  const CallStanding waits = standing(10, true, begun_ns + kNsPerMs, begun_ns);
  const CallStanding away = standing(11, false, begun_ns - kCallNs, begun_ns);
  CallStanding other = two ? away : waits;
  other.pid = 12;
  other.entered_ns += two ? kNsPerMs : 0;  // it is named after rank 11
  return {waits, away, other};
}

/// The times of the samples since the begin of their pauses. The watch is asked as often as it wants.
std::vector<int64_t> into_pauses(LateWatch& watch, int64_t pause_ns, int64_t phase_ns, int64_t for_ns,
                                 bool two = false) {
  std::vector<int64_t> at;
  for (int64_t now_ns = kStart + phase_ns; now_ns < kStart + for_ns;
       now_ns += watch.hurries() ? LateWatch::kHurriedNs : kStep) {
    const std::vector<pid_t> pids = watch.choose(pausing(now_ns, pause_ns, two), now_ns);
    if (!pids.empty()) {
      EXPECT_EQ(pids[0], 11);
      at.push_back(now_ns % kNsPerSecond);
    }
  }
  return at;
}

/// A reading takes some 10 ms, and pauses of 200 ms are over 50 ms after kLateNs.
TEST(LateWatchOften, AShortPauseThatComesAgainIsReadEarlyInIt) {
  for (int64_t phase_ns = 0; phase_ns < kStep; phase_ns += 7 * kNsPerMs) {
    LateWatch watch;
    const std::vector<int64_t> at = into_pauses(watch, 200 * kNsPerMs, phase_ns, 20 * kNsPerSecond);
    ASSERT_GE(at.size(), 4U) << phase_ns;
    EXPECT_LE(at.size(), static_cast<size_t>(LateWatch::kMostAtOnce));
    for (size_t i = 0; i < at.size(); ++i) {
      EXPECT_GE(at[i], i < 2 ? LateWatch::kLateNs : LateWatch::kSoonNs) << phase_ns;
    }
    for (size_t i = 0; i < 3; ++i) {  // later ones may wait for the budget
      EXPECT_LE(at[i], i < 2 ? LateWatch::kLateNs + 2 * LateWatch::kHurriedNs : kStep + LateWatch::kHurriedNs)
          << phase_ns;
    }
  }
}

/// One that launches now and then while another waits for it all the time is late once.
TEST(LateWatchOften, ARankThatLagsBehindIsLateOnce) {
  LateWatch watch;
  std::vector<pid_t> read;
  int64_t launched_ns = kStart;
  for (int64_t now_ns = kStart; now_ns < kStart + kNsPerSecond; now_ns += 20 * kNsPerMs) {
    if (now_ns - launched_ns >= 180 * kNsPerMs) {
      launched_ns = now_ns;
    }
    CallStanding ahead = standing(10, true, kStart);
    CallStanding behind = standing(11, false, launched_ns);
    for (CallStanding* one : {&ahead, &behind}) {
      one->launched = true;
      one->communicator = 7;
    }
    ahead.seq = 100;
    behind.seq = 1 + (launched_ns - kStart) / kNsPerMs / 180;
    const std::vector<CallStanding> job{ahead, behind};
    for (const pid_t pid : watch.choose(job, now_ns)) {
      EXPECT_GE(now_ns - launched_ns, LateWatch::kLateNs) << "read early, as one that pauses again and again";
      read.push_back(pid);
    }
  }
  EXPECT_FALSE(read.empty());
}

TEST(LateWatchOften, RanksThatAreAwaitedTogetherScatter) {
  LateWatch watch;
  const std::vector<int64_t> at = into_pauses(watch, 200 * kNsPerMs, 0, 20 * kNsPerSecond, true);
  ASSERT_GE(at.size(), 4U);
  EXPECT_GE(*std::ranges::min_element(at), LateWatch::kLateNs);
}

TEST(LateWatchOften, PausesLongAgoAreForgotten) {
  LateWatch watch;
  ASSERT_EQ(into_pauses(watch, 200 * kNsPerMs, 0, 2 * kNsPerSecond).size(), 2U);
  const int64_t later_ns = kStart + 2 * kNsPerSecond + LateWatch::kRememberedNs;
  EXPECT_THAT(watch.choose(pausing(later_ns + 100 * kNsPerMs, 200 * kNsPerMs), later_ns + 100 * kNsPerMs), IsEmpty());
  EXPECT_THAT(watch.choose(pausing(later_ns + 160 * kNsPerMs, 200 * kNsPerMs), later_ns + 160 * kNsPerMs), SizeIs(3));
}

/// Nothing is asked for more often while ranks wait for less than kSoonNs, whatever was before.
TEST(LateWatchOften, AJobThatGetsOnIsLookedAtAsRarelyAsEver) {
  LateWatch watch;
  for (int64_t now_ns = kStart; now_ns < kStart + 20 * kNsPerSecond; now_ns += 3 * kNsPerMs) {
    ASSERT_THAT(watch.choose(pausing(now_ns, LateWatch::kSoonNs), now_ns), IsEmpty());
    ASSERT_FALSE(watch.hurries());
  }
  // With devices, programs run ahead of each other in good health.
  LateWatch of_devices;
  const auto launched = [](int32_t pid, int64_t seq, int64_t entered_ns) {
    CallStanding one = standing(pid, false, entered_ns);
    one.launched = true;
    one.communicator = 7;
    one.seq = seq;
    return one;
  };
  ASSERT_EQ(into_pauses(of_devices, 200 * kNsPerMs, 0, 2 * kNsPerSecond).size(), 2U);
  for (int64_t step = 0; step < 1000; ++step) {
    const int64_t now_ns = kStart + 2 * kNsPerSecond + step * 10 * kNsPerMs;
    const std::vector<CallStanding> job{launched(10, step + 30, now_ns), launched(11, step, now_ns - 5 * kNsPerMs)};
    ASSERT_THAT(of_devices.choose(job, now_ns), IsEmpty());
    ASSERT_FALSE(of_devices.hurries());
  }
}

/// All ranks compute longer than usual between two calls: no rank waits.
TEST_F(LateWatchTest, APauseOfAllIsNoLateness) {
  const std::vector<CallStanding> job{standing(10, false, kStart, kStart), standing(11, false, kStart, kStart + 1)};
  EXPECT_THAT(samples(job, LateWatch::kStillNs - kStep), IsEmpty());
}

TEST_F(LateWatchTest, AReceiverWaitsByDesign) {
  std::vector<CallStanding> job{standing(10, true, kStart), standing(11, false, kStart - kStep, kStart - kStep)};
  job[0].waits_by_design = true;
  EXPECT_THAT(samples(job, kNsPerSecond), IsEmpty());
}

/// The only rank on its node, for which others wait elsewhere.
TEST_F(LateWatchTest, OneThatStandsStillAloneIsSeen) {
  const std::vector<CallStanding> alone{standing(11, false, kStart, kStart)};
  EXPECT_THAT(samples(alone, 10 * kNsPerSecond), ElementsAre(2 * kNsPerSecond, 8 * kNsPerSecond));
  std::vector<CallStanding> slow = alone;
  slow[0].usual_gap_ns = 5 * kNsPerSecond;
  LateWatch other;
  EXPECT_THAT(other.choose(slow, kStart + 39 * kNsPerSecond), IsEmpty()) << "its steps take long";
  EXPECT_THAT(other.choose(slow, kStart + 40 * kNsPerSecond), ElementsAre(11));
}

TEST_F(LateWatchTest, AHangIsSampledMoreAndMoreRarely) {
  const std::vector<CallStanding> job{standing(10, true, kStart), standing(11, false, kStart - kStep, kStart - kStep)};
  EXPECT_THAT(samples(job, 3600 * kNsPerSecond), testing::AllOf(SizeIs(testing::Ge(6U)), SizeIs(testing::Le(12U))));
}

TEST_F(LateWatchTest, SamplesAreBoundedHoweverOftenARankIsLate) {
  size_t samples = 0;
  constexpr int64_t kMinutes = 10;
  for (int64_t now_ns = kStart; now_ns < kStart + kMinutes * 60 * kNsPerSecond; now_ns += 3 * kStep) {
    const std::vector<CallStanding> job{standing(10, true, now_ns),
                                        standing(11, false, now_ns - kStep, now_ns - kStep)};
    samples += watch_.choose(job, now_ns + 2 * kStep).empty() ? 0 : 1;
  }
  EXPECT_GE(samples, static_cast<size_t>(kMinutes * 5));
  EXPECT_LE(samples, static_cast<size_t>(kMinutes * 60 * kNsPerSecond / LateWatch::kEveryNs + LateWatch::kMostAtOnce));
  // A long pause is still sampled.
  const int64_t hang_ns = kStart + kMinutes * 60 * kNsPerSecond;
  const std::vector<CallStanding> hang{standing(10, true, hang_ns),
                                       standing(11, false, hang_ns - kStep, hang_ns - kStep)};
  EXPECT_THAT(watch_.choose(hang, hang_ns + 3 * kNsPerSecond), ElementsAre(11, 10));
}

TEST_F(LateWatchTest, NumberOfProcessesIsBounded) {
  std::vector<CallStanding> job;
  for (int32_t pid = 0; pid < 64; ++pid) {
    job.push_back(standing(pid, pid >= 32, pid >= 32 ? kStart : kStart - kStep - pid));
  }
  EXPECT_THAT(watch_.choose(job, kStart + 2 * kStep), SizeIs(LateWatch::kMostOutside + LateWatch::kMostInside));
}

TEST_F(LateWatchTest, AFindingAsksForASampleButNotAgainAtOnce) {
  const std::vector<CallStanding> job{standing(10, false, kStart, kStart)};
  watch_.ask();
  EXPECT_THAT(watch_.choose(job, kStart + kStep), IsEmpty()) << "it gets on";
  EXPECT_THAT(watch_.choose(job, kStart + 3 * kStep), IsEmpty()) << "the question was about another moment";
  watch_.ask();
  EXPECT_THAT(watch_.choose(job, kStart + 4 * kStep), ElementsAre(10));
  watch_.ask();
  EXPECT_THAT(watch_.choose(job, kStart + 5 * kStep), IsEmpty());
  EXPECT_THAT(watch_.choose(job, kStart + 4 * kStep + LateWatch::kAskedNs), ElementsAre(10));
}

/// One user's processes without progress, each time new ones, take that user's samples and no other user's.
TEST(LateWatchesTest, AUserHasSamplesOfTheirOwn) {
  LateWatches watches;
  std::vector<int64_t> samples_of_two;
  size_t samples_of_one = 0;
  for (int64_t now_ns = 0; now_ns < 100 * kNsPerSecond; now_ns += kStep) {
    LateWatches::StandingsOfUsers users;
    for (int32_t pid = 0; pid < 20; ++pid) {
      const auto number = static_cast<int32_t>(1000 + now_ns / kNsPerSecond * 20 + pid);
      users[1].push_back(standing(number, pid % 2 == 0, kStart - kNsPerSecond + (pid % 2 == 0 ? 5 : 0)));
    }
    if (now_ns >= 90 * kNsPerSecond) {
      const int64_t begun_ns = kStart + 90 * kNsPerSecond;
      users[2] = {standing(10, true, begun_ns), standing(11, false, begun_ns - kStep, begun_ns - kStep)};
    }
    const std::vector<pid_t> pids = watches.choose(users, kStart + now_ns);
    samples_of_one += !pids.empty() && pids[0] >= 1000 ? 1 : 0;
    if (!pids.empty() && pids[0] < 1000) {
      samples_of_two.push_back(now_ns - 90 * kNsPerSecond);
      EXPECT_THAT(pids, ElementsAre(11, 10));
    }
  }
  EXPECT_GT(samples_of_one, 10U);
  EXPECT_LT(samples_of_one, 20U);
  EXPECT_THAT(samples_of_two, testing::Contains(testing::Le(3 * kStep)));
}

TEST(LateWatchesTest, TheyHurryForAUserWhoIsThere) {
  LateWatches watches;
  const std::vector<CallStanding> late{standing(10, true, kStart), standing(11, false, kStart - kStep, kStart - kStep)};
  LateWatches::StandingsOfUsers users;
  users[1] = {};
  users[2] = late;
  watches.choose(users, kStart + LateWatch::kSoonNs);
  EXPECT_TRUE(watches.hurries());
  users.erase(2);
  watches.choose(users, kStart + kStep);
  EXPECT_FALSE(watches.hurries());
}

TEST(LateWatchesTest, UsersTakeTurns) {
  LateWatches watches;
  const std::vector<CallStanding> late{standing(10, true, kStart), standing(11, false, kStart - kStep, kStart - kStep)};
  std::vector<CallStanding> others = late;
  for (CallStanding& other : others) {
    other.pid += 100;
  }
  const LateWatches::StandingsOfUsers users{{1, late}, {2, others}};
  EXPECT_THAT(watches.choose(users, kStart + 2 * kStep), ElementsAre(11, 10));
  EXPECT_THAT(watches.choose(users, kStart + 2 * kStep), ElementsAre(111, 110));
  EXPECT_THAT(watches.choose(users, kStart + 2 * kStep), IsEmpty());
  watches.ask();
  EXPECT_THAT(watches.choose(users, kStart + 30 * kStep), SizeIs(2));
  EXPECT_THAT(watches.choose(users, kStart + 30 * kStep), SizeIs(2)) << "a question is one for each user";
}

}  // namespace
}  // namespace stalltrace::capture
