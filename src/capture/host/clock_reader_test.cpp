// SPDX-License-Identifier: Apache-2.0
// Rows of what the kernel reports of the host's clock.
#include "capture/host/clock_reader.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "model/memory_source.h"

namespace stalltrace::capture {
namespace {

constexpr int64_t kMinuteNs = 60 * kNsPerSecond;
constexpr int64_t kUtcNs = 30'000'000 * kMinuteNs;  // at which a minute begins

class Clocks : public ::testing::Test {
 protected:
  std::vector<ClockReading> rows() {
    std::vector<ClockReading> found;
    EXPECT_TRUE(sink_.clock_readings({}, [&](const ClockReading& row) { found.push_back(row); }));
    return found;
  }

  ClockPair now_{.monotonic_ns = 1000, .utc_ns = kUtcNs, .window_ns = 50};
  std::optional<int64_t> error_ns_ = 3 * kNsPerMs;
  MemorySource sink_;
  ClockReader reader_{{.node_id = 7, .clock_offset_ns = kUtcNs - 1200},
                      sink_,
                      {.read = [this] { return now_; }, .utc_error_ns = [this] { return error_ns_; }}};
};

TEST_F(Clocks, ARowHasBothClocksAndTheErrorOfUtc) {
  reader_.read();
  const std::vector<ClockReading> read = rows();
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].node_id, 7U);
  EXPECT_EQ(read[0].timestamp_ns, kUtcNs - 200);  // by the clock that all times of the recording are of
  EXPECT_EQ(read[0].utc_ns, kUtcNs);
  EXPECT_EQ(read[0].window_ns, 50);
  EXPECT_EQ(read[0].max_error_ns, 3 * kNsPerMs);
}

TEST_F(Clocks, WhereNothingKeepsUtcRightTheErrorIsUnknown) {
  error_ns_.reset();
  reader_.read();
  EXPECT_EQ(rows().at(0).max_error_ns, std::nullopt);
}

TEST_F(Clocks, ARowIsMadeWhenAMinuteBegins) {
  reader_.read();
  for (int64_t second = 1; second <= 125; ++second) {
    now_.utc_ns = kUtcNs + second * kNsPerSecond;
    now_.monotonic_ns = 1000 + second * kNsPerSecond;
    reader_.read_each_minute(now_.utc_ns);
  }
  const std::vector<ClockReading> read = rows();
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[1].utc_ns, kUtcNs + kMinuteNs);
  EXPECT_EQ(read[2].utc_ns, kUtcNs + 2 * kMinuteNs);
}

/// The kernel's own clocks.
TEST(KernelClock, TwoReadingsAreCloseTogether) {
  const ClockPair pair = read_both_clocks();
  EXPECT_GE(pair.window_ns, 0);
  EXPECT_LE(pair.monotonic_ns, monotonic_now_ns());
  EXPECT_LE(pair.window_ns, kNsPerSecond);
  EXPECT_GE(kernel_utc_error_ns().value_or(0), 0);
}

}  // namespace
}  // namespace stalltrace::capture
