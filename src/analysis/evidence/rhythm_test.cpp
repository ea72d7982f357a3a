// SPDX-License-Identifier: Apache-2.0
// Made sequences of stalls: regular ones, with jitter, with gaps, and at random.
#include "analysis/evidence/rhythm.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "base/clock.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kFirst = 100;
constexpr int64_t kLast = 1099;

/// The instances for which `stalls` is true.
std::vector<RhythmStall> made(const std::function<bool(int64_t number)>& stalls) {
  std::vector<RhythmStall> result;
  for (int64_t number = kFirst; number <= kLast; ++number) {
    if (stalls(number)) {
      const auto count = static_cast<int64_t>(result.size());
      result.push_back({number, number * 50 * kNsPerMs, (count == 3 ? 310 : 270) * kNsPerMs});
    }
  }
  return result;
}

std::optional<Rhythm> rhythm_of(const std::function<bool(int64_t number)>& stalls) {
  return find_rhythm(made(stalls), kFirst, kLast);
}

TEST(Rhythm, OfEveryTwentieth) {
  const auto rhythm = rhythm_of([](int64_t number) { return number % 20 == 0; });
  ASSERT_TRUE(rhythm);
  EXPECT_EQ(rhythm->every, 20);
  EXPECT_FALSE(rhythm->about);
  EXPECT_EQ(rhythm->period_ns, kNsPerSecond);
  EXPECT_FALSE(rhythm->since_ns) << "it has it from the first on";
  golden::expect_text(rhythm_text(*rhythm));
}

TEST(Rhythm, WithSomeThatWereTooShortToBeFound) {
  const auto rhythm = rhythm_of([](int64_t number) { return number % 20 == 0 && number % 140 != 0; });
  ASSERT_TRUE(rhythm);
  EXPECT_EQ(rhythm->every, 20);
}

TEST(Rhythm, WithJitter) {
  std::mt19937 random(7);
  std::vector<RhythmStall> stalls;
  for (int64_t number = kFirst + 5; number < kLast; number += 29 + static_cast<int64_t>(random() % 3)) {
    stalls.push_back({number, number * 50 * kNsPerMs, kNsPerSecond});
  }
  const auto rhythm = find_rhythm(stalls, kFirst, kLast);
  ASSERT_TRUE(rhythm && rhythm->every);
  EXPECT_NEAR(static_cast<double>(*rhythm->every), 30, 1);
  EXPECT_TRUE(rhythm->about);
  golden::expect_text(rhythm_text(*rhythm));
}

TEST(Rhythm, ABeginning) {
  std::mt19937 random(3);
  const auto rhythm = rhythm_of([&](int64_t number) { return number >= 600 && (number == 600 || random() % 9 == 0); });
  ASSERT_TRUE(rhythm);
  EXPECT_FALSE(rhythm->every);
  EXPECT_EQ(rhythm->since_ns, 600 * 50 * kNsPerMs);
  EXPECT_EQ(rhythm->before, 500);
  golden::expect_text(rhythm_text(*rhythm));
}

TEST(Rhythm, AnEventIsNoBeginning) {
  EXPECT_FALSE(rhythm_of([](int64_t number) { return number >= 600 && number < 640; }));
  EXPECT_TRUE(rhythm_of([](int64_t number) { return number >= 600; }));
}

TEST(Rhythm, SilentWhereChanceShowsTheSame) {
  int64_t found = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const uint32_t one_in = 2 + seed % 60;
    found += rhythm_of([&](int64_t /*number*/) { return random() % one_in == 0; }) ? 1 : 0;
  }
  EXPECT_LE(found, 4) << "of 2000; the threshold allows for two tests of one in a thousand each";
}

TEST(Rhythm, SilentOnFewOnAllAndOnNothing) {
  EXPECT_FALSE(rhythm_of([](int64_t number) { return number % 200 == 0; })) << "five";
  EXPECT_FALSE(rhythm_of([](int64_t /*number*/) { return true; }));
  EXPECT_FALSE(rhythm_of([](int64_t /*number*/) { return false; }));
  EXPECT_FALSE(find_rhythm({}, 5, 5));
  const auto stalls = made([](int64_t number) { return number % 20 == 0; });
  EXPECT_FALSE(find_rhythm(stalls, kFirst + 50, kLast)) << "a stall outside";
}

TEST(Rhythm, OrdinalNumbers) {
  for (const int64_t every : {2, 3, 11, 12, 21, 112}) {
    golden::expect_text(rhythm_text({.every = every, .period_ns = kNsPerSecond, .typical_ns = 1, .worst_ns = 2}));
  }
}

}  // namespace
}  // namespace stalltrace::analysis
