// SPDX-License-Identifier: Apache-2.0
#include "fleet/resolve.h"

#include <gmock/gmock.h>

#include <chrono>

#include "base/net/loopback.h"

namespace stalltrace::fleet {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::Truly;

TEST(Resolve, HostsFilesAreReadAsTheManualPageSays) {
  const auto hosts = parse_hosts(
      "127.0.0.1 localhost\n# 10.0.0.9 gone\n10.0.0.1\tGpu1.example  gpu1 # rack 1\n\n::1 localhost\nnonsense x\n");
  EXPECT_THAT(hosts.at("localhost"), ElementsAre("127.0.0.1", "::1"));
  EXPECT_THAT(hosts.at("gpu1"), ElementsAre("10.0.0.1"));
  EXPECT_THAT(hosts.at("gpu1.example"), ElementsAre("10.0.0.1"));
  EXPECT_EQ(hosts.size(), 3U);
}

TEST(Resolve, NumbersAreThemselves) {
  std::vector<NodeAddress> nodes{{.host = "10.0.0.1"}, {.host = "::1"}};
  resolve(nodes, std::chrono::milliseconds(100));
  EXPECT_THAT(nodes[0].addresses, ElementsAre("10.0.0.1"));
  EXPECT_THAT(nodes[1].addresses, ElementsAre("::1"));
}

/// With this host's own files and name servers, or none. Names under .invalid exist nowhere (RFC 2606); the dot at the
/// end keeps search domains away, which may have an entry for any name.
TEST(Resolve, AsThisHostDoes) {
  constexpr std::chrono::seconds kPatience{3};
  std::vector<NodeAddress> nodes{{.host = "localhost"}, {.host = "no-such-host.invalid."}, {.host = "LocalHost"}};
  const auto begin = std::chrono::steady_clock::now();
  resolve(nodes, kPatience);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience + std::chrono::seconds(10)) << "silent name servers";
  for (const NodeAddress& node : {nodes[0], nodes[2]}) {
    EXPECT_THAT(node.addresses, Not(IsEmpty())) << node.host << ": " << node.problem;
    EXPECT_THAT(node.addresses, Each(Truly(is_loopback)));
    EXPECT_EQ(node.problem, "");
  }
  EXPECT_THAT(nodes[1].addresses, IsEmpty());
  EXPECT_NE(nodes[1].problem, "");  // "not known", or without a network that no answer came in time
  EXPECT_NE(nodes[1].remedy, "");
}

}  // namespace
}  // namespace stalltrace::fleet
