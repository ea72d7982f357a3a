// SPDX-License-Identifier: Apache-2.0
#include "plugin/recorder/call_numbers.h"

#include <gtest/gtest.h>

#include "plugin/wire/blackbox.h"

namespace stalltrace::plugin {
namespace {

/// Successive calls of a group reuse one slot: the id's generation rises.
uint64_t call_id(uint64_t generation) { return 0x77ULL << ST_BOX_ID_TAG_SHIFT | generation << 16 | 5; }

TEST(CallNumberTable, HoldsThoseOfAGroupOfThousands) {
  constexpr uint64_t kCalls = 5000;
  for (uint64_t call = 1; call <= kCalls; ++call) {
    note_call(call_id(call), 3 * call);
  }
  for (uint64_t call = 1; call <= kCalls; ++call) {
    ASSERT_EQ(number_of_call(call_id(call)), 3 * call) << call;
  }
}

TEST(CallNumberTable, ForgetsTheOldestAndNeverTakesOneForAnother) {
  constexpr uint64_t kFirst = 1 << 20;
  constexpr uint64_t kCalls = 100'000;
  for (uint64_t call = kFirst; call < kFirst + kCalls; ++call) {
    note_call(call_id(call), call);
  }
  EXPECT_EQ(number_of_call(call_id(kFirst)), ST_BOX_NUMBER_UNKNOWN);
  for (uint64_t call = kFirst; call < kFirst + kCalls; ++call) {
    const uint64_t number = number_of_call(call_id(call));
    ASSERT_TRUE(number == call || number == ST_BOX_NUMBER_UNKNOWN) << call;
  }
  EXPECT_EQ(number_of_call(0), ST_BOX_NUMBER_UNKNOWN);
}

}  // namespace
}  // namespace stalltrace::plugin
