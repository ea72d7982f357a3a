// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/process_report.h"

#include <gtest/gtest.h>

namespace stalltrace {
namespace {

using EndKind = ProcessReport::Kind;

TEST(ProcessReport, ErrorsThatEndedTheWatchdog) {
  const auto ecc = read_process_report(
      "[rank4]:[E505 10:10:03.4 ProcessGroupNCCL.cpp:1595] [PG ID 0 PG GUID 0(default_pg) Rank 4] Process group "
      "watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered");
  ASSERT_TRUE(ecc);
  EXPECT_EQ(ecc->kind, EndKind::kCudaError);
  EXPECT_EQ(ecc->error, "CUDA error: uncorrectable ECC error encountered");
  EXPECT_EQ(read_process_report("  what():  CUDA error: unknown error")->kind, EndKind::kCudaError);
  const std::string_view system_error = "  what():  NCCL error: unhandled system error";
  EXPECT_EQ(read_process_report(system_error)->kind, EndKind::kNcclError);
  const auto stuck =
      read_process_report("ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress");
  EXPECT_EQ(stuck->kind, EndKind::kStuck);
  EXPECT_EQ(stuck->stuck_s, 480);
  const std::string_view closed = "x: Connection closed by remote peer node7<40123>";
  EXPECT_EQ(read_process_report(closed)->peer, "node7<40123>");
  for (const std::string_view line :
       {"CUDA error: the secret 17 of a user", "  what():  CUDA error: secret",
        "RuntimeError: CUDA error: misaligned address",
        "watchdog thread terminated with exception: [Rank 1] Watchdog caught", "watchdog got stuck for long", "",
        "torchrun: failure, pid x, exit code 1", "Connection closed by remote peer "}) {
    EXPECT_FALSE(read_process_report(line)) << line;
  }
}

TEST(ProcessReport, AnEndedProcessIsATextAndBack) {
  const std::string text = text_of(EndedProcess{.first = true,
                                                .rank = 12,
                                                .local_rank = 4,
                                                .pid = 4711,
                                                .exit_code = -9,
                                                .host = "node1",
                                                .time = "2026-05-05_10:00:03"});
  const auto read = read_process_report(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, EndKind::kEnded);
  EXPECT_TRUE(read->ended.first);
  EXPECT_EQ(read->ended.rank, 12);
  EXPECT_EQ(read->ended.local_rank, 4);
  EXPECT_EQ(read->ended.pid, 4711);
  EXPECT_EQ(read->ended.exit_code, -9);
  EXPECT_EQ(read->ended.host, "node1");
  EXPECT_EQ(read->ended.time, "2026-05-05_10:00:03");
  const std::string line = text_of(EndedProcess{.local_rank = 3, .pid = 5, .exit_code = 1});
  const auto bare = read_process_report(line);
  EXPECT_EQ(bare->ended.rank, std::nullopt);
  EXPECT_EQ(bare->ended.local_rank, 3);
  EXPECT_FALSE(bare->ended.first);
}

}  // namespace
}  // namespace stalltrace
