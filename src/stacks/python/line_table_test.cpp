// SPDX-License-Identifier: Apache-2.0
#include "stacks/python/line_table.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace stalltrace::stacks {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) {
    result.push_back(static_cast<std::byte>(value));
  }
  return result;
}

TEST(LineOf, APairOfLnotabCountsFromItsCodeOn) {
  // Objects/lnotab_notes.txt: +1 line from byte 6 on, +205 from byte 50 on (two pairs), -3 from byte 56 on.
  const auto table = bytes({6, 1, 44, 127, 0, 78, 6, -3});
  EXPECT_EQ(line_of(9, table, 10, -1), 10);
  EXPECT_EQ(line_of(9, table, 10, 0), 10);
  EXPECT_EQ(line_of(9, table, 10, 5), 10);
  EXPECT_EQ(line_of(9, table, 10, 6), 11);
  EXPECT_EQ(line_of(9, table, 10, 50), 216);
  EXPECT_EQ(line_of(9, table, 10, 57), 213);
  EXPECT_EQ(line_of(9, table, 10, 100'000), 213);
  EXPECT_EQ(line_of(9, bytes({}), 10, 4), 10);
  EXPECT_EQ(line_of(9, bytes({0}), 10, 4), 10) << "half a pair";
  EXPECT_FALSE(line_of(9, bytes({0, -100}), 10, 4)) << "before the first line of a file";
}

TEST(LineOf, APairOfPep626IsAboutItsOwnCode) {
  const auto table = bytes({4, 1, 6, -128, 2, 3, 0, 5, 8, -2});
  EXPECT_EQ(line_of(10, table, 10, 0), 11);
  EXPECT_EQ(line_of(10, table, 10, 2), 11);
  EXPECT_FALSE(line_of(10, table, 10, 4)) << "artificial: no line";
  EXPECT_EQ(line_of(10, table, 10, 10), 14);
  EXPECT_EQ(line_of(10, table, 10, 12), 17) << "a pair of no code moves the line";
  EXPECT_FALSE(line_of(10, table, 10, 20)) << "behind the table";
}

TEST(LineOf, LocationsOfAllKinds) {
  // Objects/locations.md: short (kind 0..9), one line (10..12), without columns (13), long (14), none (15).
  const auto table = bytes({0x80 | 0 << 3 | 1, 0x11,                                    // 2 units, same line
                            0x80 | 11 << 3 | 0, 0x04, 0x08,                             // 1 unit, 1 line on
                            0x80 | 13 << 3 | 0, 0x03,                                   // 1 unit, 1 line back
                            0x80 | 15 << 3 | 2,                                         // 3 units without a line
                            0x80 | 14 << 3 | 0, 0x40 | 0x08, 0x03, 0x00, 0x01, 0x02});  // 1 unit, 100 lines on
  for (const uint32_t minor : {11U, 12U, 13U}) {
    EXPECT_EQ(line_of(minor, table, 10, -2), 10);
    EXPECT_EQ(line_of(minor, table, 10, 0), 10);
    EXPECT_EQ(line_of(minor, table, 10, 2), 10);
    EXPECT_EQ(line_of(minor, table, 10, 4), 11);
    EXPECT_EQ(line_of(minor, table, 10, 6), 10);
    EXPECT_FALSE(line_of(minor, table, 10, 8));
    EXPECT_FALSE(line_of(minor, table, 10, 12));
    EXPECT_EQ(line_of(minor, table, 10, 14), 110);
    EXPECT_FALSE(line_of(minor, table, 10, 16)) << "behind the table";
  }
  EXPECT_FALSE(line_of(11, bytes({0x00, 0x80}), 10, 0)) << "begins inside an entry";
  EXPECT_FALSE(line_of(11, bytes({0x80 | 13 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f}), 10, 0))
      << "a number without an end, and beyond all files";
  EXPECT_EQ(line_of(11, bytes({0x80 | 13 << 3}), 10, 0), 10) << "cut off";
}

}  // namespace
}  // namespace stalltrace::stacks
