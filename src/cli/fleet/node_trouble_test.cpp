// SPDX-License-Identifier: Apache-2.0
// What can be wrong with a node: its names, and what each does.
#include "cli/fleet/node_trouble.h"

#include <gtest/gtest.h>

namespace stalltrace::cli {
namespace {

TEST(NodeTrouble, IsReadAndNamed) {
  const auto parsed = parse_node_trouble("12=bad-rows");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, std::pair(12, NodeTrouble::kBadRows));
  EXPECT_EQ(node_trouble_named(name_of(NodeTrouble::kVersion)), NodeTrouble::kVersion);
  EXPECT_EQ(name_of(NodeTrouble::kNone), "");
  EXPECT_FALSE(node_trouble_named(""));
}

TEST(NodeTrouble, WhatIsNoneIsAUsageErrorThatListsThem) {
  for (const char* text : {"", "3", "3=", "=down", "-1=down", "3=ill", "4294967296=down", "down=3"}) {
    const auto parsed = parse_node_trouble(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kUsage);
    EXPECT_NE(parsed.error().remedy.find("3=garbage"), std::string::npos);
  }
}

TEST(NodeTrouble, SilentNodesAnswerNothing) {
  EXPECT_EQ(silence_of(NodeTrouble::kHangs), Silence::kAll);
  EXPECT_FALSE(silence_of(NodeTrouble::kSlow));
  EXPECT_TRUE(suits_tls(NodeTrouble::kHangs));
  EXPECT_FALSE(suits_tls(NodeTrouble::kTrickles)) << "its bytes are no TLS";
}

}  // namespace
}  // namespace stalltrace::cli
