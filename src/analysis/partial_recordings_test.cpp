// SPDX-License-Identifier: Apache-2.0
// Recordings of some nodes alone: the fault, or that it is not seen. Never another rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"
#include "analysis/testing/subset.h"
#include "analysis/testing/synthetic_cluster.h"

namespace stalltrace::analysis {
namespace {

using small_job::kRanks;
using small_job::reported;

/// Bit i of `subset`: rank i was recorded.
std::vector<int> missing_of(unsigned subset) {
  std::vector<int> missing;
  for (int rank = 0; rank < kRanks; ++rank) {
    if ((subset >> rank & 1) == 0) {
      missing.push_back(rank);
    }
  }
  return missing;
}

/// Loss is the matter of the link's two ends.
bool concerns(FaultKind kind, int rank, std::optional<int32_t> named) {
  return !named || *named == rank || (kind == FaultKind::kPacketLoss && *named == (rank + 1) % kRanks);
}

TEST(PartialRecordings, NoFaultIsBlamedOnAnotherRank) {
  int named = 0;
  for (const FaultKind kind :
       {FaultKind::kPacketLoss, FaultKind::kLateRank, FaultKind::kCpuContention, FaultKind::kProcessStopped}) {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (unsigned subset = 1; subset < (1U << kRanks) - 1; ++subset) {
        JobOptions options{.seed = 30 + subset};
        options.faults = {{.kind = kind, .rank = rank}};
        options.unrecorded = missing_of(subset);
        SyntheticJob job(options);
        const Report report = small_job::report_of(job.source());
        SCOPED_TRACE(fmt::format("fault {} at rank {}, ranks recorded {:04b} (rank 0 last)\n{}", static_cast<int>(kind),
                                 rank, subset, reported(report)));
        EXPECT_FALSE(report.unrecorded_ranks.empty());
        EXPECT_NE(report.health(), std::optional(true));
        for (const Finding& finding : report.findings) {
          const std::optional<int32_t> culprit = finding.culprit ? finding.culprit->rank : std::nullopt;
          EXPECT_TRUE(concerns(kind, rank, culprit)) << to_text(finding.cause);
          if (finding.link) {
            EXPECT_TRUE(concerns(kind, rank, finding.link->src_rank) && concerns(kind, rank, finding.link->dst_rank));
          }
          named += finding.cause == Cause::kUnknown ? 0 : 1;
        }
      }
    }
  }
  EXPECT_GT(named, 60) << "what the recorded nodes show is still found";
}

/// 2 % loss on the way from rank 1 to rank 2, in rank 2's firewall.
MemorySource firewalled_job(const std::set<NodeId>& nodes) {
  MemorySource whole = small_job::lossy_job();
  small_job::drop(whole, true, "NETFILTER_DROP");
  return recorded_on(nodes, whole);
}

TEST(PartialRecordings, WhatAHostDroppedItselfIsSaidWithoutTheSender) {
  for (const std::set<int>& ranks : {std::set{2}, std::set{0, 2}, std::set{0, 2, 3}}) {
    std::set<NodeId> nodes;
    for (const int rank : ranks) {
      nodes.insert(small_job::node_of_rank(rank));
    }
    MemorySource source = firewalled_job(nodes);
    const Finding finding = small_job::only(source);
    EXPECT_EQ(finding.cause, Cause::kUnknown);
    EXPECT_FALSE(finding.culprit.has_value());
    EXPECT_EQ(small_job::evidence_of(finding, "packet_drop").count, small_job::kSteps - small_job::kSlowFrom);
    EXPECT_TRUE(finding.remedy.starts_with("on node2, look at the firewall")) << finding.remedy;
    EXPECT_NE(finding.remedy.find("then record the node"), std::string::npos) << finding.remedy;
    if (ranks.size() == 2) {
      expect_golden_text("unknown: the sender was not recorded", finding);
    }
  }
}

TEST(PartialRecordings, BystandersAreNotBlamed) {
  for (const std::set<int>& ranks : {std::set{0, 3}, std::set{0}, std::set{3}}) {
    std::set<NodeId> nodes;
    for (const int rank : ranks) {
      nodes.insert(small_job::node_of_rank(rank));
    }
    MemorySource source = firewalled_job(nodes);
    const Finding finding = small_job::only(source);
    EXPECT_EQ(finding.cause, Cause::kUnknown);
    EXPECT_FALSE(finding.culprit.has_value()) << finding.summary;
    EXPECT_EQ(small_job::count_of_kind(finding, "packet_drop"), 0);
    EXPECT_TRUE(finding.summary.starts_with("Without the recording of ranks ")) << finding.summary;
    EXPECT_TRUE(finding.remedy.starts_with("record the nodes of ranks ")) << finding.remedy;
  }
}

/// Endings that hang, each with the rank that is to blame; -1: nobody is.
std::vector<std::pair<small_job::Ending, int>> hangs() {
  using namespace small_job;
  Ending dead = hang();
  dead.process = [](int rank, Process& process) {
    if (rank == 2) {
      exit_at(process, kLastArrivalNs + 10 * kNsPerMs, 9);
    }
  };
  Ending mismatch = hang();
  mismatch.call = [](int rank, int64_t step, Collective& call) {
    if (step == kSteps - 1) {
      leave_open(call);
      call.bytes /= rank == 1 ? 2 : 1;
    }
    return true;
  };
  return {{hang({2}), 2}, {hang({1, 2, 3}), 0}, {dead, 2}, {mismatch, 1}, {hang(), -1}};
}

TEST(PartialRecordings, NoHangIsBlamedOnAnotherRank) {
  int named = 0;
  int number = 0;
  for (const auto& [ending, to_blame] : hangs()) {
    MemorySource whole;
    small_job::fill(whole, ending);
    for (unsigned subset = 1; subset < (1U << kRanks) - 1; ++subset) {
      std::set<NodeId> nodes;
      for (int rank = 0; rank < kRanks; ++rank) {
        if ((subset >> rank & 1) != 0) {
          nodes.insert(small_job::node_of_rank(rank));
        }
      }
      MemorySource source = recorded_on(nodes, whole);
      const Report report = small_job::report_of(source);
      SCOPED_TRACE(fmt::format("hang {}, ranks recorded {:04b} (rank 0 last)\n{}", number, subset, reported(report)));
      EXPECT_NE(report.health(), std::optional(true));
      for (const Finding& finding : report.findings) {
        if (finding.culprit) {
          EXPECT_EQ(finding.culprit->rank, to_blame) << to_text(finding.cause);
          ++named;
        }
      }
    }
    ++number;
  }
  EXPECT_GT(named, 15) << "what the recorded nodes show is still found";
}

}  // namespace
}  // namespace stalltrace::analysis
