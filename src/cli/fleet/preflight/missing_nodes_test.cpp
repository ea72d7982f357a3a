// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/preflight/missing_nodes.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <set>

namespace stalltrace::cli {
namespace {

using fleet::FailedNode;
using fleet::Progress;
using fleet::Stage;
using testing::HasSubstr;

const Error kLate{.kind = ErrorKind::kInterrupted, .what = "late", .remedy = "local"};
const Error kFailedThere{.what = "failed", .remedy = "a remedy of the node's own"};

std::string remedy(const Progress& reached, const Error& error) {
  return remedy_of_missing({.host = "gpu7", .port = 7701, .addresses = {"10.0.0.7"}}, reached, error);
}

struct Case {
  Progress reached;
  const Error& error;
  std::string word;  // that only its remedy is to have
};

TEST(MissingNodes, EachReasonHasItsRemedy) {
  const std::vector<Case> cases{
      {{.connect_error = ECONNREFUSED}, kFailedThere, "--nodes"},
      {{.connect_error = EHOSTUNREACH}, kFailedThere, "firewall"},
      {{.stage = Stage::kSecuring}, kLate, "TLS"},
      {{.stage = Stage::kAsking}, kLate, "stopped"},
      {{.stage = Stage::kBusy, .status = 503}, kLate, "busy"},
      {{.stage = Stage::kAsking, .status = 401}, kFailedThere, "--token-file"},
      {{.stage = Stage::kAsking, .status = 403}, kFailedThere, "server with --allow-preflight"},
      {{.stage = Stage::kAsking, .status = 404}, kFailedThere, "version"},
      {{.stage = Stage::kAsking, .status = 409}, kFailedThere, "other tests"},
      {{.stage = Stage::kAsking, .status = 500}, kFailedThere, "memory"},
  };
  std::set<std::string> remedies;
  for (const Case& one : cases) {
    const std::string text = remedy(one.reached, one.error);
    EXPECT_THAT(text, HasSubstr(one.word));
    EXPECT_LE(text.size(), 200U) << "it would be cut";
    remedies.insert(text);
    for (const Case& other : cases) {
      EXPECT_EQ(remedy(other.reached, other.error).contains(one.word), &one == &other)
          << one.word << ": " << other.word;
    }
  }
  EXPECT_EQ(remedies.size(), cases.size());
}

TEST(MissingNodes, NoConnectionIsNoConnectionWhicheverClockEndedIt) {
  const std::string by_us = remedy({}, kLate);
  EXPECT_THAT(by_us, HasSubstr("7701"));
  EXPECT_EQ(remedy({.connect_error = ETIMEDOUT}, kFailedThere), by_us);
  EXPECT_EQ(remedy({.connect_error = ECONNREFUSED}, kLate), by_us) << "the next address was being tried";
}

TEST(MissingNodes, AnotherVersionMayKnowTheRequestAndNotItsForm) {
  EXPECT_EQ(remedy({.stage = Stage::kAsking, .status = 400}, kFailedThere),
            remedy({.stage = Stage::kAsking, .status = 404}, kFailedThere));
}

TEST(MissingNodes, WhatThisHostFoundOutHasItsOwnRemedy) {
  const Error certificate{.what = "its certificate is another one", .remedy = "compare the fingerprints"};
  EXPECT_EQ(remedy({.stage = Stage::kSecuring}, certificate), certificate.remedy);
  EXPECT_EQ(remedy({.stage = Stage::kAsking, .status = 200}, certificate), certificate.remedy);
  EXPECT_EQ(remedy_of_missing({.host = "gpu7"}, {}, certificate), certificate.remedy) << "no address is known";
}

TEST(MissingNodes, TheLastOneCountsThoseBeyondTheLimit) {
  for (const size_t more : {0U, 1U, 5U}) {
    const std::vector<FailedNode> failed(serve::kMostMissingNamed + more, {"gpu7:7700", kFailedThere});
    const auto missing = missing_of(failed);
    ASSERT_EQ(missing.size(), serve::kMostMissingNamed);
    EXPECT_EQ(missing.front().node, "gpu7:7700");
    EXPECT_EQ(missing.front().reason, kFailedThere.what);
    EXPECT_EQ(missing.front().remedy, kFailedThere.remedy);
    EXPECT_EQ(missing.back().node, more == 0 ? "gpu7:7700" : std::to_string(more + 1) + " more");
    EXPECT_FALSE(missing.back().remedy.empty());
  }
}

TEST(MissingNodes, TextsFitTheRequest) {
  const std::string longest(5000, 'x');
  const std::vector<FailedNode> failed{{longest, {.what = longest + "\x1b[2J", .remedy = longest}}};
  const auto missing = missing_of(failed);
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_LE(missing[0].node.size(), serve::kLongestNodeName);
  EXPECT_LE(missing[0].reason.size(), serve::kLongestReason);
  EXPECT_LE(missing[0].remedy.size(), serve::kLongestReason);
}

}  // namespace
}  // namespace stalltrace::cli
