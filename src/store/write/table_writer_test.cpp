// SPDX-License-Identifier: Apache-2.0
#include "store/write/table_writer.h"

#include <gtest/gtest.h>

#include "model/events.h"

namespace stalltrace::store {
namespace {

/// While a disk is full, the same few states come again and again.
TEST(TableWriter, OfAStateOnlyTheNewestRowIsKept) {
  TableWriter<Loss> table;
  for (uint64_t count = 1; count <= 1000; ++count) {
    EXPECT_EQ(table.accept({1, "ring:collective", count}), count == 1);
  }
  EXPECT_TRUE(table.accept({1, "ring:network", 7}));
  ASSERT_EQ(table.rows().size(), 2U);
  EXPECT_EQ(table.rows().front().count, 1000U);
}

TEST(TableWriter, StatesThatWereDroppedComeAnew) {
  TableWriter<Loss> table;
  for (uint64_t count = 1; count <= 10; ++count) {
    EXPECT_TRUE(table.accept({1, "source " + std::to_string(count), count}));
  }
  EXPECT_EQ(table.drop_oldest(4), 6U);
  EXPECT_FALSE(table.accept({1, "source 7", 70}));
  EXPECT_EQ(table.rows().front().count, 70U);
  EXPECT_TRUE(table.accept({1, "source 1", 1}));
  table.clear();
  EXPECT_TRUE(table.accept({1, "source 7", 7}));
}

}  // namespace
}  // namespace stalltrace::store
