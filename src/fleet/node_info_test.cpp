// SPDX-License-Identifier: Apache-2.0
// Offsets of clocks, with clocks that are made up.
#include "fleet/node_info.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "base/clock.h"
#include "fleet/steady_utc.h"
#include "serve/http/api.h"

namespace stalltrace::fleet {
namespace {

/// A clock that is `ahead_ns` ahead at time 0 and goes wrong by `ppm`.
struct MadeClock {
  int64_t ahead_ns = 0;
  int64_t ppm = 0;
  [[nodiscard]] int64_t at(int64_t time_ns) const { return time_ns + ahead_ns + time_ns / 1'000'000 * ppm; }
};

constexpr int64_t kNow = int64_t{3600} * kNsPerSecond;

class Draw {
 public:
  int64_t below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random_); }
  int64_t around_zero(int64_t most) { return below(2 * most + 1) - most; }

 private:
  std::mt19937_64 random_{5};
};

/// The best of eight exchanges with a node. Ways are of 20 us to some ms, and not the same there and back.
ClockOffset ask(const MadeClock& ours, const MadeClock& node, Draw& draw) {
  std::optional<ClockOffset> best;
  int64_t time_ns = kNow;
  for (int i = 0; i < 8; ++i) {
    const int64_t there_ns = 20 * kNsPerUs + draw.below(draw.below(4) == 0 ? 5 * kNsPerMs : 100 * kNsPerUs);
    const int64_t back_ns = 20 * kNsPerUs + draw.below(draw.below(4) == 0 ? 5 * kNsPerMs : 100 * kNsPerUs);
    const std::optional<ClockOffset> offset = offset_of({.sent_ns = ours.at(time_ns),
                                                         .received_ns = ours.at(time_ns + there_ns + back_ns),
                                                         .now_ns = node.at(time_ns + there_ns),
                                                         .monotonic_ns = node.at(time_ns + there_ns) - 17});
    EXPECT_TRUE(offset.has_value());
    if (offset && (!best || offset->error_ns < best->error_ns)) {
      best = offset;
    }
    time_ns += there_ns + back_ns;
  }
  return *best;
}

TEST(ClockOffset, IsWithinItsError) {
  Draw draw;
  for (int i = 0; i < 2000; ++i) {
    const MadeClock ours{.ahead_ns = draw.around_zero(5 * kNsPerSecond), .ppm = draw.around_zero(50)};
    const MadeClock node{.ahead_ns = draw.around_zero(5 * kNsPerSecond), .ppm = draw.around_zero(50)};
    const ClockOffset offset = ask(ours, node, draw);
    const int64_t truth_ns = node.at(kNow) - ours.at(kNow);
    constexpr int64_t kWhileAsking = 10 * kNsPerUs;  // the clocks drift while eight questions are asked
    EXPECT_LE(std::abs(offset.offset_ns - truth_ns), offset.error_ns + kWhileAsking);
    EXPECT_LT(offset.error_ns, 2 * kNsPerMs);
    EXPECT_EQ(offset.monotonic_offset_ns, offset.offset_ns - 17);
  }
}

TEST(ClockOffset, OfAnAnswerBeforeItsQuestionIsNotKnown) {
  EXPECT_FALSE(offset_of({.sent_ns = 100, .received_ns = 50, .now_ns = 70}).has_value()) << "our clock was set back";
  EXPECT_FALSE(offset_of({.sent_ns = 100, .received_ns = 99, .now_ns = 100}).has_value());
  EXPECT_TRUE(offset_of({.sent_ns = 100, .received_ns = 100, .now_ns = 100}).has_value());
}

Reply clock_reply(int64_t sent_ns, int64_t received_ns, int64_t now_ns) {
  return {.body = fmt::format(R"({{"now_ns":{},"monotonic_ns":{},"boot_id":"b"}})", now_ns, now_ns - 17),
          .headers = {},
          .sent_ns = sent_ns,
          .received_ns = received_ns};
}

/// It would be the quickest of all.
TEST(ClockOffset, AnAnswerBeforeItsQuestionIsNoneOfThoseThatCount) {
  InfoConversation asked;
  ASSERT_TRUE(asked.next(nullptr));
  Reply about{.body = fmt::format(R"({{"api":{},"recordings":[]}})", serve::kApiVersion)};
  ASSERT_TRUE(asked.next(&about));
  Reply set_back = clock_reply(1000, 400, 700);
  ASSERT_TRUE(asked.next(&set_back));
  EXPECT_FALSE(asked.clock.has_value());
  Reply right = clock_reply(2000, 2200, 2150);
  ASSERT_TRUE(asked.next(&right));
  ASSERT_TRUE(asked.clock.has_value());
  EXPECT_EQ(asked.clock->offset_ns, 50);
  EXPECT_EQ(asked.clock->error_ns, 101);
  ASSERT_TRUE(asked.next(&set_back));
  EXPECT_EQ(asked.clock->error_ns, 101);
}

/// Clocks of this host. UTC may be set at any time; CLOCK_MONOTONIC is the time itself.
struct OwnClocks {
  int64_t time_ns = 0;
  int64_t utc_ahead_ns = 0;
  [[nodiscard]] ClockPair read() const { return {.monotonic_ns = time_ns, .utc_ns = time_ns + utc_ahead_ns}; }
};

/// During a question to the first of two nodes, and again before the second one is asked.
TEST(SteadyUtc, IsMovedByNothingThatSetsUtc) {
  constexpr int64_t kWayNs = 100 * kNsPerUs;
  for (const int64_t step_ns : {-3600 * kNsPerSecond, -5 * kNsPerMs, 5 * kNsPerMs, 3600 * kNsPerSecond}) {
    OwnClocks own{.time_ns = kNow, .utc_ahead_ns = 40 * kNsPerSecond};
    const SteadyUtc clock(own.read(), [&own] { return own.time_ns; });
    const SteadyUtc copy = clock;
    for (const int64_t node_ahead_ns : {7 * kNsPerMs, 8 * kNsPerMs}) {
      ClockExchange exchange{.sent_ns = clock.now_ns()};
      own.time_ns += kWayNs;
      own.utc_ahead_ns += step_ns;
      exchange.now_ns = own.time_ns + 40 * kNsPerSecond + node_ahead_ns;
      own.time_ns += kWayNs;
      exchange.received_ns = copy.now_ns();
      const auto offset = offset_of(exchange);
      ASSERT_TRUE(offset.has_value()) << step_ns;
      EXPECT_EQ(offset->offset_ns, node_ahead_ns) << step_ns;
      EXPECT_EQ(offset->error_ns, kWayNs + 1) << step_ns;
      own.utc_ahead_ns += step_ns;
    }
  }
}

/// All through a recording of up to half an hour, of clocks that drift.
TEST(MeasuredClock, IsWithinItsErrorAllThroughTheRecording) {
  Draw draw;
  const int64_t now_ns = 1'800'000'000 * kNsPerSecond;
  for (int i = 0; i < 500; ++i) {
    const MadeClock node{.ahead_ns = draw.around_zero(5 * kNsPerSecond), .ppm = draw.around_zero(100)};
    const int64_t age_ns = draw.below(1800 * kNsPerSecond);
    const int64_t clock_offset_ns = draw.around_zero(kNsPerSecond * 1'000'000);
    // Of times relative to now: monotonic = node.at(time) - clock_offset; a row's time is monotonic + clock_offset.
    const Node run{
        .node_id = 4, .boot_id = "b", .started_ns = now_ns + node.at(-age_ns), .clock_offset_ns = clock_offset_ns};
    const ClockOffset asked{
        .offset_ns = 0, .error_ns = 100, .monotonic_offset_ns = node.at(0) - clock_offset_ns, .boot_id = "b"};
    const auto measured = measured_clock(run, asked, now_ns);
    ASSERT_TRUE(measured.has_value());
    EXPECT_EQ(measured->node_id, 4U);
    for (const int64_t back_ns : {int64_t{0}, age_ns / 2, age_ns}) {
      const int64_t truth_ns = node.at(-back_ns) + back_ns;
      EXPECT_LE(std::abs(measured->offset_ns - truth_ns), measured->error_ns) << back_ns;
    }
    EXPECT_LT(measured->error_ns, 200 * kNsPerMs);
  }
}

/// A node may say anything of itself.
TEST(MeasuredClock, SaysNothingOfClocksThatNoHostHas) {
  constexpr int64_t kLatest = 4'000'000'000'000'000'000;
  for (const int64_t sign : {-1, 1}) {
    const Node run{.boot_id = "b", .started_ns = kLatest, .clock_offset_ns = sign * kLatest};
    const ClockOffset asked{.error_ns = 1, .monotonic_offset_ns = sign * kLatest / 2, .boot_id = "b"};
    EXPECT_FALSE(measured_clock(run, asked, kLatest).has_value());
  }
}

/// Sizes are added over all nodes.
TEST(NodeInfo, NumbersThatNoNodeCanHaveAreBounded) {
  for (const char* number : {"9223372036854775807", "-9223372036854775807"}) {
    const auto info = parse_node_info(fmt::format(
        R"({{"api":{},"recordings":[{{"name":"a","bytes":{},"lost_events":{},"range":{{"collectives":{}}}}}]}})",
        serve::kApiVersion, number, number, number));
    ASSERT_TRUE(info.has_value());
    for (const int64_t amount :
         {info->recordings[0].size_bytes, info->recordings[0].lost_events, info->recordings[0].collectives}) {
      EXPECT_GE(amount, 0);
      EXPECT_LE(amount, int64_t{1} << 50);
    }
  }
}

TEST(MeasuredClock, SaysNothingOfARecordingOfAnotherBoot) {
  EXPECT_FALSE(measured_clock({.boot_id = "a"}, {.boot_id = "b"}, kNow).has_value());
  EXPECT_FALSE(measured_clock({.boot_id = ""}, {.boot_id = ""}, kNow).has_value());
}

}  // namespace
}  // namespace stalltrace::fleet
