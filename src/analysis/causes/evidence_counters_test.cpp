// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/evidence_counters.h"

#include <gmock/gmock.h>

namespace stalltrace::analysis {
namespace {

using ::testing::ElementsAre;

enum class Counted : uint8_t { kPackets, kTimeouts };
enum class OthersCounted : uint8_t { kPackets };

TEST(EvidenceCounters, KeysOfDifferentRulesNeverMeet) {
  EvidenceCounters counters;
  counters.at(Counted::kPackets).count = 3;
  counters.at(OthersCounted::kPackets).count = 5;
  EXPECT_EQ(counters.sum(Counted::kPackets).count, 3);
  EXPECT_EQ(counters.sum(OthersCounted::kPackets).count, 5);
  EXPECT_EQ(counters.sum(Counted::kTimeouts).count, 0);
}

TEST(EvidenceCounters, SumsTakeAllDetailsAndTheLongestNamesOne) {
  EvidenceCounters counters;
  counters.at(Counted::kPackets) = {1, 90, {}};
  counters.at(Counted::kPackets, "a") = {2, 10, {}};
  counters.at(Counted::kPackets, "b") = {3, 20, {}};
  EXPECT_EQ(counters.sum(Counted::kPackets).count, 6);
  EXPECT_EQ(counters.sum(Counted::kPackets).time_ns, 120);
  EXPECT_EQ(counters.longest_detail(Counted::kPackets), "b") << "a counter without detail names nothing";
  EXPECT_EQ(counters.longest_detail(Counted::kTimeouts), "");
}

TEST(EvidenceCounters, AFewSampleEventsAreKeptAndNoneTwice) {
  EvidenceCounters counted;
  counted.at(Counted::kPackets, "a") = {2, 0, {7, 7, 8}};
  counted.at(Counted::kPackets, "b") = {1, 0, {8, 9}};
  EXPECT_THAT(counted.sum(Counted::kPackets).events, ElementsAre(7, 8, 9));
  EvidenceCounters first;
  first.merge(counted);
  EXPECT_THAT(first.sum(Counted::kPackets).events, ElementsAre(7, 8, 9));
  EvidenceCounters second;
  second.at(Counted::kPackets, "a") = {4, 0, {8, 10, 11, 12, 13, 14}};
  first.merge(second);
  EXPECT_EQ(first.sum(Counted::kPackets).count, 7);
  EXPECT_THAT(first.sum(Counted::kPackets).events, ElementsAre(7, 8, 10, 11, 12));
}

}  // namespace
}  // namespace stalltrace::analysis
