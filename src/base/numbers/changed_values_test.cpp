// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/changed_values.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

namespace stalltrace {
namespace {

using Rows = std::vector<std::pair<double, int64_t>>;

TEST(ChangedValues, AreTheFirstAndChangesWithTheReadingBefore) {
  ChangedValues changed;
  Rows rows;
  const auto write = [&](double value, int64_t time_ns) { rows.emplace_back(value, time_ns); };
  int64_t time_ns = 0;
  for (const double value : {5, 5, 5, 7, 8, 8}) {
    changed.read("a", value, ++time_ns, write);
  }
  EXPECT_EQ(rows, (Rows{{5, 1}, {5, 3}, {7, 4}, {8, 5}}));
}

TEST(ChangedValues, AnOwnersAreForgotten) {
  ChangedValues changed;
  Rows rows;
  const auto write = [&](double value, int64_t time_ns) { rows.emplace_back(value, time_ns); };
  changed.read("a", 1, 1, write, 7);
  changed.read("b", 2, 1, write);
  changed.forget_if([](int64_t owner) { return owner == 7; });
  changed.read("a", 1, 2, write, 7);
  changed.read("b", 2, 2, write);
  EXPECT_EQ(rows, (Rows{{1, 1}, {2, 1}, {1, 2}}));
}

}  // namespace
}  // namespace stalltrace
