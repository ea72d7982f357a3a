// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "lab/cluster/injection/fault_spec.h"
#include "lab/cluster/injection/fault_table.h"

namespace stalltrace::lab {
namespace {

const std::vector<std::string> kNccl = {"nccl"};

/// The number of draws in which every setting comes `weight` times.
int64_t round_size() {
  int64_t size = 0;
  for (const DrawSetting& setting : draw_settings()) {
    size += setting.weight;
  }
  return size;
}

TEST(DrawStream, IsSplitmix64) {
  // The reference generator's first three numbers for the seed 1234567.
  DrawStream stream(1234567);
  EXPECT_EQ(stream.next(), 6457827717110365317U);
  EXPECT_EQ(stream.next(), 3203168211198807973U);
  EXPECT_EQ(stream.next(), 9817491932198370423U);
}

TEST(Draws, DependOnSeedAndNumberOnly) {
  std::set<std::vector<std::string>> different;
  for (int64_t number = 0; number < 2 * round_size(); ++number) {
    const auto one = draw(7, number, kNccl);
    const auto again = draw(7, number, kNccl);
    ASSERT_TRUE(one && again);
    EXPECT_EQ(one->arguments, again->arguments);
    different.insert(draw(8, number, kNccl)->arguments);
    different.insert(one->arguments);
  }
  EXPECT_GT(different.size(), static_cast<size_t>(2 * round_size())) << "two seeds, two campaigns";
}

TEST(Draws, ARoundTriesEverySetting) {
  std::map<std::string, int> first;
  std::map<std::string, int> second;
  bool same_order = true;
  for (int64_t i = 0; i < round_size(); ++i) {
    const Draw a = draw(3, i, kNccl).value();
    const Draw b = draw(3, i + round_size(), kNccl).value();
    ++first[a.setting];
    ++second[b.setting];
    same_order = same_order && a.setting == b.setting;
  }
  EXPECT_EQ(first, second);
  EXPECT_FALSE(same_order);
  EXPECT_EQ(first.size(), draw_settings().size());
  for (const DrawSetting& setting : draw_settings()) {
    EXPECT_EQ(first[std::string(setting.name)], setting.weight) << setting.name;
  }
}

/// How many of the first `draws` are long and healthy, whatever the seed: those of whole rounds, and what a part of a
/// round has at least.
int64_t fewest_healthy(int64_t draws, const std::vector<std::string>& workloads) {
  int64_t size = 0;
  int64_t healthy = 0;
  for (const std::string& workload : workloads) {
    for (const DrawSetting& setting : draw_settings()) {
      if (setting.on.empty() || setting.on.contains(workload)) {
        size += setting.weight;
        healthy += setting.kind == DrawKind::kHealthy ? setting.weight : 0;
      }
    }
  }
  return draws / size * healthy + std::max<int64_t>(0, draws % size - (size - healthy));
}

TEST(Draws, ThreeHundredHaveSixtyHealthyOnes) {
  const std::vector<std::vector<std::string>> campaigns = {{"nccl", "mpi", "torch"}, {"nccl"}, {"mpi"}, {"torch"}};
  for (const std::vector<std::string>& workloads : campaigns) {
    EXPECT_GE(fewest_healthy(300, workloads), 60) << workloads.front() << " of " << workloads.size();
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      int64_t healthy = 0;
      for (int64_t number = 0; number < 300; ++number) {
        healthy += draw(seed, number, workloads)->kind == DrawKind::kHealthy ? 1 : 0;
      }
      EXPECT_GE(healthy, 60) << workloads.front() << " of " << workloads.size() << ", seed " << seed;
    }
  }
}

TEST(Draws, SomeFaultsAreOutsideOfTheCatalogue) {
  const Draw drawn = draw(4, 0, kNccl, "slow_input").value();
  EXPECT_EQ(drawn.kind, DrawKind::kUncatalogued);
  EXPECT_TRUE(injects(drawn.kind));
}

TEST(Draws, EveryFaultCanBeAskedForAndLocationsDiffer) {
  std::map<std::string, std::set<int>> ranks;
  for (int64_t number = 0; number < 12 * round_size(); ++number) {
    const Draw drawn = draw(5, number, kNccl).value();
    for (size_t i = 0; i + 1 < drawn.arguments.size(); ++i) {
      if (drawn.arguments[i] != "--fault") {
        continue;
      }
      const auto spec = parse_fault(drawn.arguments[i + 1]);
      ASSERT_TRUE(spec) << spec.error().what;
      if (find_fault_row(spec->cause)->of_job) {
        continue;
      }
      const bool of_node = spec->node.has_value();
      ASSERT_TRUE(choose_rank(*spec, 4, 0, of_node ? 2 : 1)) << spec->text;
      EXPECT_EQ(of_node,
                (std::ranges::count(drawn.arguments, "--ranks-per-node") == 1) && spec->cause == "packet_loss");
      if (of_node) {
        continue;
      }
      ranks[spec->cause].insert(spec->rank.value());
      EXPECT_FALSE(spec->has("peer") && spec->number("peer") == *spec->rank) << spec->text;
    }
  }
  EXPECT_GE(ranks.size(), 14U);
  for (const auto& [cause, drawn] : ranks) {
    EXPECT_GE(drawn.size(), 3U) << cause;
  }
}

TEST(Draws, OtherWorkloadsGetWhatTheyKnow) {
  const std::vector<std::string> both = {"nccl", "mpi"};
  std::set<std::string> workloads;
  for (int64_t number = 0; number < 2 * round_size(); ++number) {
    const Draw drawn = draw(1, number, both).value();
    workloads.insert(drawn.workload);
    if (drawn.workload == "mpi") {
      EXPECT_THAT(drawn.arguments, testing::Not(testing::Contains("--uneven")));
    }
  }
  EXPECT_EQ(workloads.size(), 2U);
}

TEST(Draws, OnlyNarrowsAndRefusesWhatIsNot) {
  for (int64_t number = 0; number < 5; ++number) {
    EXPECT_EQ(draw(1, number, kNccl, "late_rank 15")->setting, "late_rank 15 ms");
  }
  const auto none = draw(1, 0, kNccl, "gremlins");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace stalltrace::lab
