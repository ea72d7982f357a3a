// SPDX-License-Identifier: Apache-2.0
#include "model/parse/time_point.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/clock.h"

namespace stalltrace {
namespace {

TEST(TimePoint, ReadsUtc) {
  EXPECT_EQ(parse_time_point("1970-01-01T00:00:00Z")->ns, 0);
  EXPECT_EQ(parse_time_point("2026-01-31T02:47:00.5Z")->ns, 1'769'827'620'500'000'000);
  EXPECT_EQ(parse_time_point("2026-01-31 02:47:00")->ns, 1'769'827'620'000'000'000);
  EXPECT_EQ(parse_time_point("2026-01-31T02:47:00.000000001Z")->ns, 1'769'827'620'000'000'001);
}

TEST(TimePoint, ReadsWhatFormatUtcWrites) {
  constexpr int64_t kTime = 1'769'827'620'123'456'000;
  EXPECT_EQ(parse_time_point(format_utc(kTime))->ns, kTime);
}

TEST(TimePoint, ReadsADistanceFromTheStart) {
  const TimePoint point = *parse_time_point("+2s");
  EXPECT_TRUE(point.from_start);
  EXPECT_EQ(point.utc_ns(5), 5 + 2 * kNsPerSecond);
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  EXPECT_EQ((TimePoint{.ns = kLast, .from_start = true}.utc_ns(5)), kLast);
}

TEST(TimePoint, AYearBeyondTheRangeOfTimesIsItsEnd) {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(parse_time_point("9999-12-31T23:59:59Z")->ns, kLast);
  EXPECT_EQ(parse_time_point("2263-01-01T00:00:00.999999999Z")->ns, kLast);
  EXPECT_EQ(parse_time_point("2262-04-11T23:47:16.854775807Z")->ns, kLast);
  EXPECT_EQ(parse_time_point("2262-04-11T23:47:15Z")->ns, 9'223'372'035 * kNsPerSecond);
  EXPECT_EQ(parse_time_point("0001-01-01T00:00:00Z")->ns, 0);
}

TEST(TimePoint, RefusesTheRest) {
  for (const char* text : {"", "+", "+2", "yesterday", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01",
                           "2026-01-01T00:00:00+01:00", "1769827620"}) {
    const auto point = parse_time_point(text);
    ASSERT_FALSE(point.has_value()) << text;
    EXPECT_EQ(point.error().kind, ErrorKind::kUsage) << text;
  }
}

}  // namespace
}  // namespace stalltrace
