// SPDX-License-Identifier: Apache-2.0
#include "model/process_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/memory_source.h"

namespace stalltrace {
namespace {

using testing::Optional;
using testing::SizeIs;

class ProcessRegistryTest : public testing::Test {
 protected:
  Process reported() {
    const auto all = *sink_.processes();
    EXPECT_THAT(all, SizeIs(1));
    return all.empty() ? Process{} : all.back();
  }
  MemorySource sink_;
  ProcessRegistry registry_{sink_};
};

TEST_F(ProcessRegistryTest, AnUnknownProcessHasNoRank) {
  EXPECT_EQ(registry_.find(7), nullptr);
  EXPECT_EQ(registry_.rank_of(7), std::nullopt);
  registry_.learn_rank(7, 1, 2);
  registry_.exited(7, 1, 0);
  EXPECT_THAT(*sink_.processes(), SizeIs(0));
}

TEST_F(ProcessRegistryTest, TheLargestCommunicatorsRankStandsIn) {
  registry_.add({.pid = 7});
  registry_.learn_rank(7, 3, 4);
  EXPECT_THAT(reported().rank, Optional(3));
  registry_.learn_rank(7, 11, 16);
  registry_.learn_rank(7, 0, 2);
  EXPECT_THAT(reported().rank, Optional(11));
  EXPECT_THAT(reported().world_size, Optional(16));
  EXPECT_EQ(reported().rank_source, RankSource::kInit);
  EXPECT_THAT(registry_.rank_of(7), Optional(11));
}

TEST_F(ProcessRegistryTest, TheLaunchersRankStands) {
  registry_.add({.pid = 7, .rank = 5, .rank_source = RankSource::kEnvironment, .world_size = 8});
  registry_.learn_rank(7, 1, 64);
  EXPECT_THAT(reported().rank, Optional(5));
  EXPECT_EQ(reported().rank_source, RankSource::kEnvironment);
}

TEST_F(ProcessRegistryTest, AnExitCode) {
  registry_.add({.pid = 7, .rank = 5});
  registry_.exited(7, 900, 3 << 8);
  EXPECT_THAT(reported().exit_code, Optional(3));
  EXPECT_EQ(reported().exit_signal, std::nullopt);
  EXPECT_THAT(reported().exit_ns, Optional(900));
  EXPECT_THAT(registry_.rank_of(7), Optional(5));  // its sockets outlive it
}

TEST_F(ProcessRegistryTest, ASignalWithACoreDump) {
  registry_.add({.pid = 7});
  registry_.exited(7, 900, 11 | 0x80);
  EXPECT_THAT(reported().exit_signal, Optional(11));
  EXPECT_EQ(reported().exit_code, std::nullopt);
}

TEST_F(ProcessRegistryTest, AProcessStaysKnownForAMinuteAfterItsEnd) {
  constexpr int64_t kSecond = 1'000'000'000;
  for (const int32_t pid : {7, 8, 9}) {
    registry_.add({.pid = pid});
  }
  registry_.exited(7, 10 * kSecond, 0);
  registry_.exited(8, 20 * kSecond, 0);
  EXPECT_NE(registry_.find(7), nullptr);
  registry_.add({.pid = 8});  // the number is used again
  registry_.exited(9, 90 * kSecond, 0);
  EXPECT_EQ(registry_.find(7), nullptr);
  EXPECT_NE(registry_.find(8), nullptr);
  EXPECT_NE(registry_.find(9), nullptr);
  EXPECT_EQ(registry_.size(), 3U);
}

}  // namespace
}  // namespace stalltrace
