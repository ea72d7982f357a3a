// SPDX-License-Identifier: Apache-2.0
#include "cli/running_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stalltrace::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

RunningProcess process(pid_t pid, pid_t parent, std::optional<int32_t> rank, bool python, bool library,
                       std::string job = "j") {
  RunningProcess one{.pid = pid, .parent = parent, .identity = {}, .python = python, .collective_library = library};
  one.identity.rank = rank;
  one.identity.job_id = std::move(job);
  return one;
}

TEST(FindRanks, ALauncherItsRanksAndTheirWorkers) {
  const std::vector<RunningProcess> processes{
      process(10, 1, std::nullopt, true, true, ""),  // torchrun, which has loaded libtorch
      process(12, 10, 1, true, true),                // rank 1 before rank 0
      process(11, 10, 0, true, true),
      process(20, 11, 0, true, true),                   // a data loader: forked, inherits all
      process(21, 20, 0, false, false),                 // what it started
      process(30, 1, std::nullopt, false, false, "")};  // a stranger
  const auto ranks = find_ranks(processes);
  ASSERT_THAT(ranks, SizeIs(2));
  EXPECT_EQ(ranks[0].pid, 11);
  EXPECT_EQ(ranks[0].rank, 0);
  EXPECT_FALSE(ranks[0].launcher_job);
  EXPECT_THAT(ranks[0].descendants, ElementsAre(20, 21));
  EXPECT_EQ(ranks[1].pid, 12);
  EXPECT_THAT(ranks[1].descendants, IsEmpty());
}

TEST(FindRanks, AShellWithARankIsNoRank) {
  const auto ranks = find_ranks({{process(10, 1, 3, false, false), process(11, 10, 3, true, false)}});
  ASSERT_THAT(ranks, SizeIs(1));
  EXPECT_EQ(ranks[0].pid, 11);
}

TEST(FindRanks, TorchrunUnderSlurmIsNotRank0) {
  const auto ranks = find_ranks({{process(10, 1, 0, true, true, "77"), process(11, 10, 0, true, true, "none"),
                                  process(12, 10, 1, true, true, "none")}});
  ASSERT_THAT(ranks, SizeIs(2));
  EXPECT_EQ(ranks[0].pid, 11);
}

/// torchrun's id is "none" unless it is set.
TEST(FindRanks, TwoJobsOfOneIdAreTwo) {
  const auto ranks = find_ranks({{process(11, 10, 0, true, true, "none"), process(12, 10, 1, true, true, "none"),
                                  process(21, 20, 0, true, true, "none"), process(22, 20, 1, true, true, "none")}});
  ASSERT_THAT(ranks, SizeIs(4));
  EXPECT_EQ(ranks[0].job, ranks[1].job);
  EXPECT_EQ(ranks[2].job, ranks[3].job);
  EXPECT_NE(ranks[0].job, ranks[2].job);
  EXPECT_EQ(ranks[0].launcher_job, "none");
  EXPECT_EQ(ranks[1].pid, 12);
}

TEST(FindRanks, WithoutARankTheLibraryCounts) {
  const auto ranks = find_ranks({{process(10, 1, std::nullopt, false, true, ""), process(11, 1, 5, false, false)}});
  ASSERT_THAT(ranks, SizeIs(1));
  EXPECT_EQ(ranks[0].pid, 10);
  EXPECT_FALSE(ranks[0].rank);
}

TEST(FindRanks, ProcessesThatClaimToBeTheirOwnAncestors) {
  EXPECT_THAT(
      find_ranks({{process(10, 11, std::nullopt, true, false, ""), process(11, 10, std::nullopt, true, false, "")}}),
      IsEmpty());
  EXPECT_THAT(find_ranks({{process(10, 10, 0, true, false)}}), testing::SizeIs(testing::Le(1U)));
}

}  // namespace
}  // namespace stalltrace::cli
