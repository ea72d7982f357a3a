// SPDX-License-Identifier: Apache-2.0
#include "fleet/rows/call_part.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/clock.h"
#include "store/testing/test_support.h"

namespace stalltrace::fleet {
namespace {

constexpr int64_t kStart = 1'800'000'000 * kNsPerSecond;
constexpr int64_t kHour = 3600 * kNsPerSecond;
constexpr int64_t kNear = kNsPerSecond;

/// Two nodes, one of which began an hour later; a call each second on both.
const std::vector<RecordedCalls> kTwo{{.range = {kStart, kStart + 10 * kHour}, .calls = 36'000},
                                      {.range = {kStart + kHour, kStart + 10 * kHour}, .calls = 32'400}};

std::optional<TimeRange> part(const TimeWindow& window, int64_t most) {
  return store::must(part_to_read(kTwo, window, most));
}

TEST(CallPart, IsAllWhereTheyAreFew) {
  EXPECT_EQ(part({}, 68'400), std::nullopt);
  EXPECT_EQ(part({.from = TimePoint{kStart + kHour}}, 68'400), std::nullopt);
  EXPECT_EQ(store::must(part_to_read({}, {}, 0)), std::nullopt);
}

TEST(CallPart, IsTheLastWithoutAWindow) {
  const auto last = part({}, 7200);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->to_ns, kForever);
  EXPECT_NEAR(static_cast<double>(last->from_ns), static_cast<double>(kStart + 9 * kHour), kNear);
}

TEST(CallPart, IsTheWindowAndWhatIsAroundIt) {
  const TimeRange window{kStart + 5 * kHour, kStart + 6 * kHour};
  const auto around = part({.from = TimePoint{window.from_ns}, .to = TimePoint{window.to_ns}}, 3 * 7200);
  ASSERT_TRUE(around);
  EXPECT_NEAR(static_cast<double>(around->from_ns), static_cast<double>(window.from_ns - kHour), kNear);
  EXPECT_NEAR(static_cast<double>(around->to_ns), static_cast<double>(window.to_ns + kHour), kNear);

  const auto up_to = part({.to = TimePoint{kStart + 2 * kHour}}, 7200 + 3600 + 7200);
  ASSERT_TRUE(up_to);
  EXPECT_EQ(up_to->from_ns, TimeRange().from_ns);
  EXPECT_NEAR(static_cast<double>(up_to->to_ns), static_cast<double>(kStart + 3 * kHour), kNear);
}

TEST(CallPart, IsTheWindowAloneWhereThatIsTooMuch) {
  const TimeRange window{kStart + 2 * kHour, kStart + 6 * kHour};
  EXPECT_EQ(part({.from = TimePoint{window.from_ns}, .to = TimePoint{window.to_ns}}, 100), window);
}

TEST(CallPart, CannotCountFromABeginningThatIsNotRead) {
  const auto refused = part_to_read(kTwo, {.from = TimePoint{kHour, true}}, 100);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace stalltrace::fleet
