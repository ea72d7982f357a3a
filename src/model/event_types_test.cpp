// SPDX-License-Identifier: Apache-2.0
#include "model/event_types.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace stalltrace {
namespace {

template <typename T>
int64_t end_of(const T& row) {
  return EventTraits<T>::end_ns(row);
}
template <typename T>
int64_t known_until(const T& row) {
  return EventTraits<T>::known_until_ns(row);
}

TEST(EventTypes, EachHasATableOfItsOwn) {
  std::set<std::string_view> tables;
  for_each_type(kEventTypes, [&]<typename T>() { EXPECT_TRUE(tables.insert(EventTraits<T>::kTable).second); });
  EXPECT_EQ(tables.size(), std::variant_size_v<Event::variant>);
}

TEST(EventTypes, ACollectiveEndsWithItsCompletion) {
  Collective row{.timestamp_ns = 100, .launch_ns = 7};
  EXPECT_EQ(end_of(row), kForever);
  EXPECT_EQ(known_until(row), 100);
  row.duration_ns = 50;
  row.completion = Completion::kSync;
  EXPECT_EQ(end_of(row), 150);
  EXPECT_EQ(known_until(row), 150);
}

TEST(EventTypes, AnUnobservedCompletionEndsWithTheLaunch) {
  Collective row{.timestamp_ns = 100, .launch_ns = 7, .completion = Completion::kUnobserved};
  EXPECT_EQ(end_of(row), 107);
  row.launch_ns.reset();
  EXPECT_EQ(end_of(row), 100);
}

TEST(EventTypes, AnOpenWaitIsKnownUntilItWasLastSeen) {
  WaitSpan row{.timestamp_ns = 100, .window_ns = 30};
  EXPECT_EQ(end_of(row), 130);
  row.open = true;
  EXPECT_EQ(end_of(row), kForever);
  EXPECT_EQ(known_until(row), 130);
}

TEST(EventTypes, AProxyStepIsOpenWithoutADuration) {
  ProxyStep row{.timestamp_ns = 100};
  EXPECT_EQ(end_of(row), kForever);
  EXPECT_EQ(known_until(row), 100);
  row.duration_ns = 30;
  EXPECT_EQ(end_of(row), 130);
}

TEST(EventTypes, SpansEndAfterTheirDurationAndSamplesAreMoments) {
  EXPECT_EQ(end_of(NetSpan{.timestamp_ns = 100, .duration_ns = 30}), 130);
  EXPECT_EQ(end_of(PacketDrop{.timestamp_ns = 100, .duration_ns = 30}), 130);
  EXPECT_EQ(end_of(TcpEvent{.timestamp_ns = 100}), 100);
  EXPECT_EQ(end_of(TcpSample{.timestamp_ns = 100}), 100);
  EXPECT_EQ(end_of(HostSample{.timestamp_ns = 100}), 100);
  EXPECT_EQ(end_of(PortCounter{.timestamp_ns = 100}), 100);
  EXPECT_EQ(end_of(ClockReading{.timestamp_ns = 100, .window_ns = 30}), 100);
}

TEST(EventTypes, WhatExistsEndsWhenItIsGone) {
  EXPECT_EQ(end_of(Process{.start_ns = 5}), kForever);
  EXPECT_EQ(end_of(Process{.start_ns = 5, .exit_ns = 9}), 9);
  EXPECT_EQ(end_of(Connection{.closed_ns = 9}), 9);
  EXPECT_EQ(end_of(Communicator{.destroyed_ns = 9}), 9);
  EXPECT_EQ(end_of(Node{.ended_ns = 9}), 9);
}

TEST(BelongsTo, ARangeHasItsBeginAndNotItsEnd) {
  const NetSpan row{.timestamp_ns = 100, .duration_ns = 30};
  EXPECT_TRUE(belongs_to(row, {}));
  EXPECT_TRUE(belongs_to(row, {130, 140}));
  EXPECT_FALSE(belongs_to(row, {131, 140}));
  EXPECT_TRUE(belongs_to(row, {90, 101}));
  EXPECT_FALSE(belongs_to(row, {90, 100}));
  EXPECT_TRUE(belongs_to(row, {110, 120}));
}

}  // namespace
}  // namespace stalltrace
