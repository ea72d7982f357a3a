// SPDX-License-Identifier: Apache-2.0
// The newest event of each slot, whatever the ids are.
#include "blackbox/format/slot_table.h"

#include <gtest/gtest.h>

namespace stalltrace::blackbox {
namespace {

uint64_t id(uint64_t slot, uint64_t generation) { return generation << ST_BOX_ID_GENERATION_SHIFT | slot; }

TEST(SlotTable, HoldsTheNewestOfEachSlotAndReturnsWhatItDisplaces) {
  SlotTable<int> table;
  EXPECT_FALSE(table.put(id(3, 1), 31));
  EXPECT_FALSE(table.put(id(4, 1), 41));
  const auto older = table.put(id(3, 2), 32);
  ASSERT_TRUE(older);
  EXPECT_EQ(older->id, id(3, 1));
  EXPECT_EQ(older->value, 31);
  EXPECT_EQ(table.find(id(3, 1)), nullptr);
  EXPECT_EQ(*table.find(id(3, 2)), 32);
  EXPECT_EQ(*table.find(id(4, 1)), 41);
}

TEST(SlotTable, AnOlderEventDisplacesNothing) {
  SlotTable<int> table;
  table.put(id(3, 2), 32);
  const auto refused = table.put(id(3, 1), 31);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->value, 31);
  EXPECT_EQ(*table.find(id(3, 2)), 32);
}

TEST(SlotTable, TheSameEventIsReplaced) {
  SlotTable<int> table;
  table.put(id(0, 0), 1);
  EXPECT_FALSE(table.put(id(0, 0), 2));
  EXPECT_EQ(*table.find(id(0, 0)), 2);
}

TEST(SlotTable, AnyIdIsNoneBeforeItIsPut) {
  SlotTable<int> table;
  table.put(id(0xffff, 0), 1);
  for (uint64_t slot : {uint64_t{0}, uint64_t{1}, uint64_t{0xfffe}}) {
    EXPECT_EQ(table.find(slot), nullptr);
    EXPECT_EQ(table.find(~slot), nullptr);
    EXPECT_FALSE(table.put(slot, 7));
  }
}

}  // namespace
}  // namespace stalltrace::blackbox
