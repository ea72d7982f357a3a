// SPDX-License-Identifier: Apache-2.0
// Evidence that a node's kernel can't record is not taken for absent, and is reported.
#include "analysis/causes/recorded_kinds.h"

#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/small_job.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

Report report_without(Ending ending, int rank, const std::string& keys) {
  ending.node = [=](int at, Node& node) {
    node.kernel = "5.10.0-32-amd64 x86_64";
    if (at == rank) {
      node.missing_evidence = keys;
    }
  };
  return report_of(ending);
}

TEST(RecordedKinds, ARankThatDoesNotComeIsNotBlamedWhereItsDeathWouldNotBeSeen) {
  expect_culprit(report_without(hang({2}), 2, "").findings.at(0), Cause::kMissingCollective, 2);
  const Report report = report_without(hang({2}), 2, "process_exits");
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown) << reported(report);
  expect_golden_text("unknown: a kind of evidence is missing", report.findings[0]);
}

TEST(RecordedKinds, AnotherKindIsNoHindrance) {
  expect_culprit(report_without(hang({2}), 2, "socket_errors host_drops").findings.at(0), Cause::kMissingCollective, 2);
}

TEST(RecordedKinds, EachReportNamesThem) {
  const Report report = report_without({}, 1, "socket_errors host_drops");
  ASSERT_EQ(report.notes.size(), 1U);
  golden::expect_text(report.notes[0]);
}

TEST(RecordedKinds, KeysOfLaterVersionsAreSkipped) {
  EXPECT_EQ(kinds_of_keys("host_drops future_kind"), std::vector{EvidenceKind::kHostDrops});
  EXPECT_TRUE(kinds_of_keys("").empty());
  std::vector<EvidenceKind> all;
  for (const EvidenceKindInfo& info : evidence_kinds()) {
    all.push_back(info.kind);
  }
  EXPECT_EQ(kinds_of_keys(keys_of(all)), all);
}

}  // namespace
}  // namespace stalltrace::analysis
