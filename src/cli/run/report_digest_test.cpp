// SPDX-License-Identifier: Apache-2.0
#include "cli/run/report_digest.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace stalltrace::cli {
namespace {

Finding waits_for_rank_1() {
  Finding finding{.cause = Cause::kMissingCollective, .severity = Severity::kWaiting};
  finding.culprit = Culprit{.node = "n", .rank = 1, .pid = 7};
  finding.summary = "Rank 1 has not entered AllReduce number 9: the others waited 3 s.";
  finding.stall_ms = 3000;
  return finding;
}

Report report_of(std::vector<Finding> findings) {
  Report report;
  report.findings = std::move(findings);
  return report;
}

TEST(ReportDigest, NumbersMakeNoOther) {
  Finding later = waits_for_rank_1();
  later.summary = "Rank 1 has not entered AllReduce number 9: the others waited 30 s.";
  later.stall_ms = 30'000;
  later.confidence = 0.9;
  EXPECT_EQ(digest_of(report_of({waits_for_rank_1()})), digest_of(report_of({later})));
}

TEST(ReportDigest, CauseSeverityCulpritLinkAndWithdrawalDo) {
  const Finding first = waits_for_rank_1();
  Finding critical = first;
  critical.severity = Severity::kCritical;
  Finding other_cause = first;
  other_cause.cause = Cause::kProcessStopped;
  Finding other_rank = first;
  other_rank.culprit->rank = 2;
  Finding link = first;
  link.culprit.reset();
  link.link = LinkEndpoints{.src_rank = 0, .dst_rank = 1, .src = {}, .dst = {}};
  Finding back = link;
  std::swap(back.link->src_rank, back.link->dst_rank);
  Finding located = first;
  located.evidence.push_back({"python_stack", 3, "rank 1 in step (train.py:9)", {}});
  std::vector<std::string> digests{"", digest_of(report_of({first, link}))};
  EXPECT_EQ(digest_of(report_of({})), "");
  for (const Finding& finding : {first, critical, other_cause, other_rank, link, back, located}) {
    digests.push_back(digest_of(report_of({finding})));
  }
  for (size_t i = 0; i < digests.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(digests[i], digests[j]) << i << " " << j;
    }
  }
}

TEST(ReportDigest, TheOrderIsNone) {
  Finding other = waits_for_rank_1();
  other.culprit->rank = 2;
  EXPECT_EQ(digest_of(report_of({waits_for_rank_1(), other})), digest_of(report_of({other, waits_for_rank_1()})));
}

}  // namespace
}  // namespace stalltrace::cli
