// SPDX-License-Identifier: Apache-2.0
// Which rank a process or a line is of.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "import/testing/evidence_files.h"

namespace stalltrace::import {
namespace {

std::unique_ptr<MemorySource> read_log(const std::string& path) {
  auto source = std::make_unique<MemorySource>();
  EXPECT_TRUE(import_nccl_logs(std::vector{path}, *source, [](const std::string&) {}, {}));
  return source;
}

TEST(NcclLogRanks, ARankIsTheWatchdogsOwn) {
  EvidenceFolder folder;
  const std::string two = set_up_lines(0) + set_up_lines(1);
  const auto rank_of = [&](const std::string& line) {
    const auto got = read_log(folder.write("a.log", two + line + "\n"));
    const std::vector<LogLine> lines = lines_of(*got, LogKind::kTimeout);
    return lines.size() == 1 ? lines[0].rank : -1;
  };
  const std::string message = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=31)";
  EXPECT_EQ(rank_of("0: [E ProcessGroupNCCL.cpp:607] [Rank 3] " + message), 3);  // srun's label can number hosts
  EXPECT_EQ(rank_of("0: [rank5]:[E ProcessGroupNCCL.cpp:607] [Rank 3] " + message), 5);
  EXPECT_EQ(rank_of("[rank5]:[E x] [PG ID 1 PG GUID 3(tp) Rank 1] " + message), 5);
  EXPECT_EQ(rank_of("[E x] [PG ID 1 PG GUID 3(tp) Rank 1] " + message), std::nullopt);  // of the group
  EXPECT_EQ(rank_of("[E x] [PG ID 0 PG GUID 0(default_pg) Rank 6] " + message), 6);     // that group is the job
  EXPECT_EQ(rank_of("7: [E x] " + message), std::nullopt);
}

std::string one_host_call(int device, int nranks) {
  return fmt::format(
      "alpha:{}:{} [{}] NCCL INFO AllGather: opCount 1f sendbuff 0x10 recvbuff 0x20 count 64 datatype 0 op 0 root 0 "
      "comm 0x4{}00 [nranks={}] stream 0x30",
      300 + device, 400 + device, device, device, nranks);
}

TEST(NcclLogRanks, ADeviceIsARankOnlyWhereOneHostCanHaveAllRanks) {
  EvidenceFolder folder;
  const auto ranks_with = [&](int nranks, int processes) {
    std::string text;
    for (int device = 0; device < processes; ++device) {
      text += fmt::format("{}\n", one_host_call(device, nranks));
    }
    std::vector<std::optional<int32_t>> ranks;
    for (const Process& row : read_log(folder.write("a.log", text))->processes().value()) {
      ranks.push_back(row.rank);
    }
    std::ranges::sort(ranks);
    return ranks;
  };
  using Ranks = std::vector<std::optional<int32_t>>;
  EXPECT_EQ(ranks_with(3, 3), (Ranks{0, 1, 2}));
  EXPECT_EQ(ranks_with(4, 3), (Ranks{0, 1, 2}));
  EXPECT_EQ(ranks_with(6, 3), (Ranks{std::nullopt, std::nullopt, std::nullopt}));  // there is another host
}

}  // namespace
}  // namespace stalltrace::import
