// SPDX-License-Identifier: Apache-2.0
// The kinds that a table's column list declares decide which rows are possible: no list of names does.
#include "store/read/plausible.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

namespace stalltrace::store {
namespace {

/// A table that no recording has.
struct Measurement {
  int64_t timestamp_ns = 0;
  int64_t measured_ns = 0;
  std::optional<int64_t> reported_ns;
  int64_t took_ns = 0;
  int64_t bytes = 0;
  int64_t serial = 0;
};

template <RowOf<Measurement> Row, typename F>
void each_column(Row& r, F&& f) {
  f(utc("timestamp_ns"), r.timestamp_ns);
  f(utc("measured_ns"), r.measured_ns);
  f(utc("reported_ns"), r.reported_ns);
  f(duration("took_ns"), or_null(r.took_ns));
  f(byte_count("bytes"), r.bytes);
  f("serial", r.serial);
}

constexpr int64_t kNow = 1'769'827'620'000'000'000;

Measurement possible() {
  return {.timestamp_ns = kNow, .measured_ns = kNow, .reported_ns = kNow, .took_ns = kLongestNs, .bytes = kMostBytes};
}

TEST(Plausible, EveryColumnThatIsDeclaredATimeHoldsOne) {
  EXPECT_TRUE(is_plausible(possible()));
  Measurement row = possible();
  row.measured_ns = kLatestTimeNs + 1;
  EXPECT_FALSE(is_plausible(row));
  row = possible();
  row.reported_ns = -1;
  EXPECT_FALSE(is_plausible(row));
}

TEST(Plausible, ADurationIsNotTakenForATime) {
  Measurement row = possible();
  row.took_ns = kNow;
  EXPECT_FALSE(is_plausible(row));
  row.took_ns = -1;
  EXPECT_FALSE(is_plausible(row));
}

TEST(Plausible, BytesAreLimitedAndPlainNumbersAreNot) {
  Measurement row = possible();
  row.serial = std::numeric_limits<int64_t>::min();
  EXPECT_TRUE(is_plausible(row));
  row.bytes = kMostBytes + 1;
  EXPECT_FALSE(is_plausible(row));
}

}  // namespace
}  // namespace stalltrace::store
