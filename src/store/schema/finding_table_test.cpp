// SPDX-License-Identifier: Apache-2.0
// Live findings in a recording that is being written.
#include <gtest/gtest.h>

#include "store/findings.h"
#include "store/testing/test_support.h"
#include "store/write/writer.h"

namespace stalltrace::store {
namespace {

Finding finding_of(Cause cause, double stall_ms) {
  Finding finding{.cause = cause};
  finding.stall_ms = stall_ms;
  finding.detected_ns = 5'000;
  finding.summary = "slow";
  return finding;
}

TEST(LiveFindings, AreReadableWhileTheTraceGoesOnAndReplacedAsTheyChange) {
  const TemporaryFolder folder;
  const std::string path = folder / "live.db";
  auto writer = RecordingWriter::create(path);
  ASSERT_TRUE(writer.has_value());
  (*writer)->accept_finding(1, finding_of(Cause::kUnknown, 10));
  (*writer)->accept_finding(2, finding_of(Cause::kLateRank, 20));
  ASSERT_TRUE((*writer)->flush().has_value());
  auto read = read_findings(path);
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[1].cause, Cause::kLateRank);
  EXPECT_EQ((*read)[1].detected_ns, 5'000);
  EXPECT_FALSE((*read)[1].ended_ns.has_value());

  Finding ended = finding_of(Cause::kLateRank, 30);
  ended.ended_ns = 9'000;
  (*writer)->accept_finding(2, ended);
  ASSERT_TRUE((*writer)->close().has_value());
  read = read_findings(path);
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[0].cause, Cause::kUnknown);
  EXPECT_EQ((*read)[1].stall_ms, 30);
  EXPECT_EQ((*read)[1].ended_ns, 9'000);
}

}  // namespace
}  // namespace stalltrace::store
