// SPDX-License-Identifier: Apache-2.0
// Text forms and their inverses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/events.h"
#include "model/events/loss_sources.h"
#include "model/finding.h"

namespace stalltrace {
namespace {

using testing::Optional;

TEST(EventIdText, IsTheNodeAndTheNumber) {
  const EventId id = make_event_id(12, 3'456);
  EXPECT_EQ(format_event_id(id), "12:3456");
  EXPECT_THAT(parse_event_id("12:3456"), Optional(id));
  const EventId largest = make_event_id((1U << kNodeIdBits) - 1, (1ULL << kEventNumberBits) - 1);
  EXPECT_THAT(parse_event_id(format_event_id(largest)), Optional(largest));
}

TEST(EventIdText, NothingElseIsOne) {
  for (const char* text : {"", ":", "12", "12:", ":5", "a:5", "12:5x", "12 :5", "-1:5", "12:-5", "8388608:1",
                           "1:1099511627776", "1:2:3"}) {
    EXPECT_EQ(parse_event_id(text), std::nullopt) << text;
  }
}

TEST(EndpointText, IsParsedAsItIsFormatted) {
  for (const Endpoint& endpoint : {Endpoint{"10.77.0.2", 40112}, Endpoint{"fe80::1", 22}}) {
    EXPECT_THAT(parse_endpoint(format_endpoint(endpoint)), Optional(endpoint));
  }
  EXPECT_EQ(format_endpoint({"fe80::1", 22}), "[fe80::1]:22");
  EXPECT_EQ(parse_endpoint("10.77.0.2"), std::nullopt);
}

TEST(SeverityText, IsParsedAsItIsFormatted) {
  for (const Severity severity :
       {Severity::kWaiting, Severity::kLow, Severity::kMedium, Severity::kHigh, Severity::kCritical}) {
    EXPECT_THAT(severity_from_text(to_text(severity)), Optional(severity));
  }
  EXPECT_EQ(severity_from_text("dire"), std::nullopt);
}

TEST(LossSources, SomeMeanThatCallsMayBeMissing) {
  for (const char* source : {kLostRingCollectives, kLostCollectiveShare, kLostSequenceShare, kLostProcessShare,
                             kLostScopeState, kLostCommunicatorShare, kLostToFullDisk}) {
    EXPECT_TRUE(may_lose_calls(source)) << source;
    EXPECT_TRUE(may_lose_calls(users_loss(source, 1000))) << source;
    EXPECT_FALSE(may_lose_calls(std::string(source) + "s")) << source;
  }
  EXPECT_TRUE(may_lose_calls("pruned:collective"));
  for (const char* source : {"", "ring:network", "share:connection:1000", "library:not_read", "profiler:unpaired"}) {
    EXPECT_FALSE(may_lose_calls(source)) << source;
  }
  EXPECT_TRUE(may_lose_processes("library:too_many:1000"));
  for (const char* source : {"share:peer:1000", "share:call:other", "state:sequence", "ring:collective"}) {
    EXPECT_TRUE(may_lose_transfers(source)) << source;
  }
  EXPECT_FALSE(may_lose_transfers("share:callers"));
  EXPECT_FALSE(may_lose_processes("share:process:1000"));
}

TEST(LossSources, ThoseThatLeaveNoEventOut) {
  EXPECT_FALSE(loses_events("share:mapping:1000"));
  EXPECT_FALSE(loses_events("share:competitor:other"));
  for (const char* source : {"perf:mappings", "share:process:1000", "ring:network", "a new one"}) {
    EXPECT_TRUE(loses_events(source)) << source;
  }
}

}  // namespace
}  // namespace stalltrace
