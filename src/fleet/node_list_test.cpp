// SPDX-License-Identifier: Apache-2.0
#include "fleet/node_list.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "fleet/resolve.h"
#include "store/testing/test_support.h"

namespace stalltrace::fleet {
namespace {

using testing::ElementsAre;

std::vector<std::string> shown(const std::string& list) {
  const auto nodes = parse_node_list(list);
  std::vector<std::string> texts;
  for (const NodeAddress& node : nodes ? *nodes : std::vector<NodeAddress>()) {
    texts.push_back(node.shown());
  }
  return texts;
}

TEST(NodeList, NamesNumbersAndPorts) {
  EXPECT_THAT(shown("a:1,b, 10.0.0.1:7701,[::1]:5,https://c.example.org:443,[fe80::1]"),
              ElementsAre("a:1", "b:7700", "10.0.0.1:7701", "[::1]:5", "c.example.org:443", "[fe80::1]:7700"));
  EXPECT_TRUE(parse_node_list("https://c")->at(0).wants_tls);
  EXPECT_FALSE(parse_node_list("c")->at(0).wants_tls);
  EXPECT_THAT(shown("a,a,a:7700,a:1,"), ElementsAre("a:7700", "a:1"));
}

TEST(NodeList, Ranges) {
  EXPECT_THAT(shown("gpu[008-010,12]:7"), ElementsAre("gpu008:7", "gpu009:7", "gpu010:7", "gpu12:7"));
  EXPECT_THAT(shown("r[1-2]n[1-2].x,b"),
              ElementsAre("r1n1.x:7700", "r1n2.x:7700", "r2n1.x:7700", "r2n2.x:7700", "b:7700"));
  EXPECT_EQ(shown("n[1-16384]").size(), 16384U);
}

TEST(NodeList, FilesAndSlurm) {
  const store::TemporaryFolder folder;
  std::ofstream(folder / "nodes") << "# rack 1\na:1, b:2\n\nc[1-2]  # two\n";
  EXPECT_THAT(shown("@" + (folder / "nodes") + ",z"), ElementsAre("a:1", "b:2", "c1:7700", "c2:7700", "z:7700"));
  std::ofstream(folder / "nested") << "@" << folder / "nodes";
  EXPECT_THAT(shown("@" + (folder / "nested")), ElementsAre());
  ::setenv("SLURM_JOB_NODELIST", "gpu[1-2],login", 1);
  EXPECT_THAT(shown("slurm"), ElementsAre("gpu1:7700", "gpu2:7700", "login:7700"));
  ::unsetenv("SLURM_JOB_NODELIST");
  EXPECT_THAT(shown("slurm"), ElementsAre());
}

TEST(NodeList, ThoseOfTheConfiguration) {
  const std::vector<std::string> configured{"gpu[1-2]", "login:1, b"};
  EXPECT_TRUE(names_configured("x,config"));
  EXPECT_FALSE(names_configured("x,config:1"));
  const auto nodes = parse_node_list("x,config", configured);
  ASSERT_TRUE(nodes);
  ASSERT_EQ(nodes->size(), 5U);
  EXPECT_EQ(nodes->at(1).shown(), "gpu1:7700");
  EXPECT_EQ(nodes->at(3).shown(), "login:1");
  EXPECT_FALSE(parse_node_list("config"));
  const std::vector<std::string> itself{"config"};  // there it is the name of a host
  EXPECT_EQ(parse_node_list("config", itself).value().at(0).shown(), "config:7700");
}

TEST(NodeList, ShortListsOfManyNodesEnd) {
  std::string repeated = "a";
  for (int i = 0; i < 40; ++i) {
    repeated += "[1,1]";
  }
  EXPECT_FALSE(parse_node_list(repeated));
  EXPECT_FALSE(parse_node_list("a[1,1][1,1][1,1][1,1][1,1][1,1][1-100][1-100]"));
  std::string deep = "a";
  for (int i = 0; i < 1'000'000; ++i) {
    deep += "[1]";
  }
  EXPECT_FALSE(parse_node_list(deep));
}

TEST(NodeList, ANodeThatIsNamedTwiceIsAskedOnce) {
  std::vector<NodeAddress> nodes{{.host = "127.0.0.1", .port = 1, .addresses = {"127.0.0.1"}},
                                 {.host = "localhost", .port = 1, .addresses = {"::1", "127.0.0.1"}},
                                 {.host = "localhost", .port = 2, .addresses = {"::1", "127.0.0.1"}},
                                 {.host = "a", .port = 1, .addresses = {"10.0.0.1", "10.0.0.2"}},
                                 {.host = "b", .port = 1, .addresses = {"10.0.0.2", "10.0.0.1"}},
                                 {.host = "c", .port = 1, .addresses = {"10.0.0.2"}},
                                 {.host = "unknown", .port = 1},
                                 {.host = "unknown2", .port = 1}};
  const std::vector<SameNode> same = leave_out_same(nodes);
  ASSERT_EQ(same.size(), 2U);
  EXPECT_EQ(same[0].kept, "127.0.0.1:1");
  EXPECT_EQ(same[0].left_out, "localhost:1");
  EXPECT_EQ(same[1].left_out, "c:1");
  EXPECT_EQ(nodes.size(), 6U);
}

TEST(NodeList, WhatIsNone) {
  for (const std::string wrong : {"",
                                  ",",
                                  "a:0",
                                  "a:65536",
                                  "a:x",
                                  "a b",
                                  "-a",
                                  "a/b",
                                  "a[1-",
                                  "a[2-1]",
                                  "a[x]",
                                  "a[1-2-3]",
                                  "a[-1]",
                                  "a[1-16385]",
                                  "n[1-999999999]",
                                  "a[1-9999999999]",
                                  "@/nowhere",
                                  "user@host",
                                  "a\nb",
                                  "a]"}) {
    EXPECT_FALSE(parse_node_list(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace stalltrace::fleet
