// SPDX-License-Identifier: Apache-2.0
// One end of a transfer: what it waited for, which steps have rows of their own, and that rows add up.
#include "lab/simulation/recording/transfer_steps.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "lab/simulation/history.h"

namespace stalltrace::simulation {
namespace {

constexpr int64_t kBegin = 100 * kNsPerSecond;

int64_t at_ms(int64_t value) { return kBegin + value * kNsPerMs; }

/// Posted at 0 ms, moves from 2 to 4 ms.
Transfer healthy(bool send) {
  Transfer transfer{.send = send, .src_posted_ns = at_ms(0), .dst_posted_ns = at_ms(0)};
  transfer.src_kernel_ns = transfer.dst_kernel_ns = transfer.ready_ns = at_ms(2);
  transfer.end_ns = at_ms(4);
  transfer.steps = 30;
  transfer.bytes = 30'000;
  return transfer;
}

ProxyStep sum_of_rows(const std::vector<ProxyStep>& rows) {
  ProxyStep sum{.steps = 0};
  for (const ProxyStep& row : rows) {
    sum.steps += row.steps;
    sum.bytes += row.bytes;
    sum.gpu_wait_ns += row.gpu_wait_ns;
    sum.peer_wait_ns += row.peer_wait_ns;
    sum.network_wait_ns += row.network_wait_ns;
  }
  return sum;
}

TEST(TransferSteps, AShortOneIsOneRow) {
  for (const bool send : {true, false}) {
    const std::vector<ProxyStep> rows = ended_rows(healthy(send));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].timestamp_ns, at_ms(0));
    EXPECT_EQ(rows[0].duration_ns, 4 * kNsPerMs);
    EXPECT_EQ(rows[0].steps, 30U);
    EXPECT_EQ(rows[0].bytes, 30'000U);
    EXPECT_EQ(rows[0].peer_wait_ns, 0);
    EXPECT_EQ(rows[0].network_wait_ns, (send ? 8 * 2 : 8 * 4) * kNsPerMs);
    EXPECT_EQ(rows[0].gpu_wait_ns, send ? 8 * 2 * kNsPerMs : 0);
  }
}

TEST(TransferSteps, ALongWaitHasARowOfItsOwnOnceForAllThatAreUnderWay) {
  for (const bool send : {true, false}) {
    Transfer late = healthy(send);  // the sender's device begins after 300 ms
    late.src_kernel_ns = late.ready_ns = at_ms(300);
    late.end_ns = at_ms(302);
    const std::vector<ProxyStep> rows = ended_rows(late);
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].step, 0);
    EXPECT_EQ(rows[0].steps, 1U);
    EXPECT_EQ(send ? rows[0].gpu_wait_ns : rows[0].network_wait_ns, 300 * kNsPerMs);
    EXPECT_EQ(sum_of_rows(rows).steps, 30U);
    EXPECT_EQ(sum_of_rows(rows).bytes, 30'000U);
    EXPECT_GE(rows[1].gpu_wait_ns + rows[1].network_wait_ns, 7 * 300 * kNsPerMs);
  }
}

TEST(TransferSteps, WhereAnotherRankIsLateTheFirstStepPasses) {
  for (const bool send : {true, false}) {
    Transfer behind = healthy(send);
    behind.ready_ns = at_ms(300);
    behind.end_ns = at_ms(302);
    const std::vector<ProxyStep> rows = ended_rows(behind);
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].step, 1) << "the first needs nothing of the other ranks";
    EXPECT_EQ(rows[0].duration_ns, 300 * kNsPerMs);
  }
}

TEST(TransferSteps, ASenderWaitsForItsReceiver) {
  Transfer late = healthy(true);
  late.dst_posted_ns = late.dst_kernel_ns = late.ready_ns = at_ms(300);
  late.end_ns = at_ms(302);
  const std::vector<ProxyStep> sends = ended_rows(late);
  EXPECT_EQ(sends[0].peer_wait_ns, 298 * kNsPerMs);
  EXPECT_EQ(sends[0].gpu_wait_ns, 2 * kNsPerMs);
  late.send = false;
  const std::vector<ProxyStep> receives = ended_rows(late);
  ASSERT_EQ(receives.size(), 1U) << "the receiver, which was late, waits for nothing long";
  EXPECT_EQ(receives[0].timestamp_ns, at_ms(300));
}

TEST(TransferSteps, ALossHoldsLaterStepsUp) {
  for (const bool send : {true, false}) {
    Transfer lossy = healthy(send);
    lossy.holds = {{at_ms(3), at_ms(203), ProxyWait::kNetwork}};
    lossy.end_ns = at_ms(204);
    const std::vector<ProxyStep> rows = ended_rows(lossy);
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].step, 15);
    EXPECT_EQ(rows[0].network_wait_ns, 200 * kNsPerMs);
    EXPECT_EQ(sum_of_rows(rows).gpu_wait_ns, send ? 8 * 2 * kNsPerMs : 0);
  }
}

TEST(TransferSteps, TheForemostStepIsTheOneThatIsOpen) {
  Transfer hung = healthy(true);
  hung.dst_posted_ns = hung.dst_kernel_ns = hung.ready_ns = hung.end_ns = kNever;
  EXPECT_FALSE(open_row(hung, at_ms(150)).has_value());
  const auto sender = open_row(hung, at_ms(1002));
  ASSERT_TRUE(sender.has_value());
  EXPECT_EQ(sender->waits_for, ProxyWait::kPeer);
  EXPECT_EQ(sender->timestamp_ns, at_ms(2)) << "since the wait began";
  EXPECT_EQ(sender->peer_wait_ns, 1000 * kNsPerMs);
  EXPECT_FALSE(sender->duration_ns.has_value());
  Transfer waiting = healthy(false);
  waiting.ready_ns = waiting.end_ns = kNever;
  const auto receiver = open_row(waiting, at_ms(1000));
  ASSERT_TRUE(receiver.has_value());
  EXPECT_EQ(receiver->step, 1);
  EXPECT_EQ(receiver->waits_for, ProxyWait::kNetwork);
}

TEST(TransferSteps, ARingNeedsAStepForEachNeighbourThatDataPass) {
  EXPECT_EQ(steps_of(Operation::kAllReduce, 8, 1000), 14);
  EXPECT_EQ(steps_of(Operation::kAllGather, 8, 1000), 7);
  EXPECT_EQ(steps_of(Operation::kSend, 8, 1000), 1);
  EXPECT_EQ(steps_of(Operation::kAllReduce, 8, 64 << 20), 128) << "of 512 KiB";
}

}  // namespace
}  // namespace stalltrace::simulation
