// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/watchdog_report.h"

#include <gtest/gtest.h>

namespace stalltrace {
namespace {

TEST(WatchdogReport, TheCallThatDidNotEnd) {
  const auto report = read_watchdog_report(
      "[rank1]:[E1118 20:32:23.955028747 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation "
      "timeout: WorkNCCL(SeqNum=2635, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=1800000) ran for 1800024 "
      "milliseconds before timing out.");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->group, "");
  EXPECT_EQ(report->waits_in, 2635);
  EXPECT_EQ(report->op, "ALLREDUCE");
  EXPECT_EQ(report->elements, 4);
  EXPECT_EQ(report->waited_ms, 1800024);
  EXPECT_FALSE(report->enqueued || report->completed);
}

TEST(WatchdogReport, BeforeCallsHadNumbers) {
  const auto report = read_watchdog_report(
      "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for "
      "1802713 milliseconds before timing out.");
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->waits_in);
  EXPECT_EQ(report->op, "ALLREDUCE");
}

TEST(WatchdogReport, TheStateOfTheGroupInEachVersionsWords) {
  for (const std::string_view line : {
           "[rank1]:[E1] [PG ID 0 PG GUID 7(tp) Rank 1]  failure detected by watchdog at work sequence id: 34 PG "
           "status: last enqueued work: 36, last completed work: 33",
           "[rank1]:[E1] [PG ID 0 PG GUID 7(tp) Rank 1] Exception (either an error or timeout) detected by watchdog at "
           "work: 34, last enqueued NCCL work: 36, last completed NCCL work: 33.",
           "[rank1]:[E1] [PG 7(tp) Rank 1] Timeout at NCCL work: 34, last enqueued NCCL work: 36, last completed NCCL "
           "work: 33.",
       }) {
    const auto report = read_watchdog_report(line);
    ASSERT_TRUE(report) << line;
    EXPECT_EQ(report->group, "7(tp)") << line;
    EXPECT_EQ(report->waits_in, 34) << line;
    EXPECT_EQ(report->enqueued, 36) << line;
    EXPECT_EQ(report->completed, 33) << line;
  }
}

TEST(WatchdogReport, ARankThatWasAskedForItsState) {
  const auto report = read_watchdog_report(
      "[rank3]:[E1] [PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump signal due to a collective timeout from "
      "rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: 33, last completed NCCL work: "
      "33.This is most likely caused by incorrect usages of collectives");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->group, "0(default_pg)");
  EXPECT_TRUE(report->asked);
  EXPECT_FALSE(report->waits_in);
  EXPECT_EQ(report->enqueued, 33);
  EXPECT_EQ(report->completed, 33);
}

TEST(WatchdogReport, ATimeIsTheLoggersOrTheLaunchers) {
  constexpr int64_t kTen = 1'777'975'200'000'000'000;  // 2026-05-05T10:00:00Z
  constexpr int64_t kLater = kTen + int64_t{30} * 86'400'000'000'000;
  EXPECT_EQ(time_in_watchdog_line("[rank2]:[E505 10:00:00.118859045 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID "
                                  "0(default_pg) Rank 2] Received a dump signal",
                                  kLater),
            kTen + 118'859'045);
  EXPECT_EQ(time_in_watchdog_line("2026-05-05T12:00:00Z [rank2]:[E505 10:00:00.5 ProcessGroupNCCL.cpp:1746] x", kLater),
            kTen + 500'000'000);  // what the launcher wrote may have another offset
  EXPECT_EQ(time_in_watchdog_line("2026-05-05T10:00:00Z [E ProcessGroupNCCL.cpp:737] [Rank 3] x", kLater), kTen);
  EXPECT_EQ(time_in_watchdog_line("[E ProcessGroupNCCL.cpp:737] [Rank 3] Watchdog caught", kLater), std::nullopt);
  EXPECT_EQ(time_in_watchdog_line("", kLater), std::nullopt);
}

TEST(WatchdogReport, AnExceptionRepeatsAnEarlierLine) {
  const auto repeats = [](std::string_view line) { return read_watchdog_report(line).value().repeats; };
  EXPECT_TRUE(
      repeats("[PG 0 (default_pg) Rank 13] Process group watchdog thread terminated with exception: [Rank 13] "
              "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2070, OpType=REDUCE)"));
  EXPECT_TRUE(
      repeats("NCCL communicator was aborted on rank 3.  Original reason for failure was: [Rank 3] Watchdog "
              "caught collective operation timeout: WorkNCCL(SeqNum=56693, OpType=BROADCAST)"));
  EXPECT_FALSE(repeats("[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=56693)"));
}

TEST(WatchdogReport, NumbersThatCanNotBeAreNone) {
  const auto unset = read_watchdog_report(
      "[PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: 1, last completed NCCL work: "
      "76280750235782912.");
  ASSERT_TRUE(unset);
  EXPECT_EQ(unset->enqueued, 1);
  EXPECT_FALSE(unset->completed);
  const auto unnumbered = read_watchdog_report("[PG 0 Rank 2] Timeout at NCCL work: -1, last enqueued NCCL work: 4");
  EXPECT_TRUE(unnumbered.value().unnumbered);
  EXPECT_FALSE(unnumbered->waits_in);
  const auto large = read_watchdog_report(
      "Timeout at collective: 99999999999999999999999, last enqueued collective: -7, last completed collective: x");
  EXPECT_FALSE(large);
  EXPECT_FALSE(read_watchdog_report("an ordinary line of a job: step 12, loss 0.3"));
  EXPECT_FALSE(read_watchdog_report(""));
  EXPECT_TRUE(read_watchdog_report("Watchdog caught collective operation timeout: WorkNCCL(SeqNum="));
}

}  // namespace
}  // namespace stalltrace
