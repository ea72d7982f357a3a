// SPDX-License-Identifier: Apache-2.0
// A rank's Send to itself and the matching Recv: NCCL starts and stops their events and reports no part of them
// (`nProxyOps = selfSend ? 0 : 2` in addP2pToPlan of its enqueue.cc, 2.26 to 2.30).
#include <gtest/gtest.h>

#include "plugin/testing/host.h"

namespace stalltrace::plugin::testing {
namespace {

constexpr int kOwnRank = 1;  // Job's own rank

template <typename V>
class OwnTransfers : public LibraryTest {};
using TransferVersions = ::testing::Types<V1, V2, V3, V4, V5, V6>;
using VersionsWithKernels = ::testing::Types<V3, V4, V5, V6>;
TYPED_TEST_SUITE(OwnTransfers, TransferVersions);

TYPED_TEST(OwnTransfers, AreOverWhenTheyAreEnqueued) {
  Job<TypeParam> job(this->library_);
  void* send = job.p2p(nullptr, true, kOwnRank, 1024);
  void* receive = job.p2p(nullptr, false, kOwnRank, 1024);
  job.stop(send);
  job.stop(receive);
  const BoxView view = this->folder_.read();
  EXPECT_TRUE(view.open.empty());
  const auto transfers = view.of_type(ST_BOX_P2P);
  ASSERT_EQ(transfers.size(), 2U);
  for (const st_box_event& event : transfers) {
    EXPECT_EQ(event.flags & (ST_BOX_KERNEL_EXPECTED | ST_BOX_UNFINISHED), 0);
    EXPECT_EQ(event.end_ns, 0U) << "nothing reports when the data was copied";
    EXPECT_NE(event.u.coll.enqueued_ns, 0U);
    EXPECT_EQ(event.u.coll.sequence, 0U);
  }
}

TYPED_TEST(OwnTransfers, AreCountedApartFromThoseWithOthers) {
  Job<TypeParam> job(this->library_);
  constexpr int kOther = 2;
  void* other = nullptr;
  for (int round = 0; round < 3; ++round) {
    job.stop(job.p2p(nullptr, true, kOwnRank, 1024));
    job.stop(job.p2p(nullptr, false, kOwnRank, 1024));
    if (round != 1) {
      other = job.p2p(nullptr, true, kOther, 1024);
      job.stop(other);
    }
  }
  const BoxView view = this->folder_.read();
  EXPECT_EQ(view.of_type(ST_BOX_P2P).back().u.coll.sequence, 2U);
  ASSERT_EQ(view.open.size(), 2U) << "those with others have parts to come";
  EXPECT_EQ(view.open[1].id, reinterpret_cast<uint64_t>(other));
  EXPECT_EQ(view.open[1].u.coll.sequence, 1U);
}

TYPED_TEST(OwnTransfers, TakeNoSlotFromAnythingThatIsOpen) {
  Job<TypeParam> job(this->library_);
  void* hung = job.p2p(nullptr, true, 2, 1024);
  job.stop(hung);
  const uint64_t slots = this->folder_.read().header.slot_capacity;
  for (uint64_t call = 0; call < 2 * slots; ++call) {
    job.stop(job.p2p(nullptr, true, kOwnRank, 1024));
  }
  const BoxView view = this->folder_.read();
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_EVICTED], 0U);
  ASSERT_EQ(view.open.size(), 1U);
  EXPECT_EQ(view.open[0].id, reinterpret_cast<uint64_t>(hung));
}

TYPED_TEST(OwnTransfers, APartThatComesAfterAllIsCountedAndHoldsNothing) {
  Job<TypeParam> job(this->library_);
  void* send = job.p2p(nullptr, true, kOwnRank, 1024);
  job.stop(send);
  job.stop(job.op(send, true, kOwnRank));
  const BoxView view = this->folder_.read();
  EXPECT_TRUE(view.open.empty());
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_LATE_PART], 1U);
}

template <typename V>
class KernelsAfterOwnTransfers : public LibraryTest {};
TYPED_TEST_SUITE(KernelsAfterOwnTransfers, VersionsWithKernels);

/// Kernels that NCCL reports too early end nothing: a call without another part has no reported end.
TYPED_TEST(KernelsAfterOwnTransfers, EndNoCollective) {
  Job<TypeParam> job(this->library_);
  const auto run = [&] {
    void* coll = job.coll(nullptr, {});
    job.stop(coll);
    void* kernel = job.kernel(coll, 0, 1000);
    job.kernel_stop(kernel, 2000);
    job.stop(kernel);
    const BoxView view = this->folder_.read();
    return view.open.empty() ? view.of_type(ST_BOX_COLL).back() : view.open.back();
  };
  const st_box_event before = run();
  EXPECT_EQ(before.flags & (ST_BOX_KERNEL_EXPECTED | ST_BOX_KERNELS_UNTRUE), ST_BOX_KERNEL_EXPECTED);
  EXPECT_NE(before.end_ns, 0U);
  EXPECT_EQ(before.u.coll.kernels_ended, 1U);
  job.stop(job.p2p(nullptr, true, kOwnRank, 1024));
  const st_box_event alone = run();
  EXPECT_EQ(alone.flags & (ST_BOX_KERNEL_EXPECTED | ST_BOX_KERNELS_UNTRUE), ST_BOX_KERNELS_UNTRUE);
  EXPECT_EQ(alone.end_ns, 0U);
  EXPECT_EQ(alone.u.coll.kernels_started, 0U);
  EXPECT_EQ(alone.u.coll.gpu_stop_ns, 0U);
}

TYPED_TEST(KernelsAfterOwnTransfers, LeaveTheEndToTheNetwork) {
  Job<TypeParam> job(this->library_);
  job.stop(job.p2p(nullptr, true, kOwnRank, 1024));
  void* coll = job.coll(nullptr, {});
  job.stop(coll);
  void* operation = job.op(coll, true, 2);
  void* kernel = job.kernel(coll, 0, 1000);
  job.kernel_stop(kernel, 2000);
  job.stop(kernel);
  EXPECT_TRUE(this->folder_.read().of_type(ST_BOX_COLL).empty()) << "its transfer goes on";
  job.stop(operation);
  const auto colls = this->folder_.read().of_type(ST_BOX_COLL);
  ASSERT_EQ(colls.size(), 1U);
  EXPECT_NE(colls[0].end_ns, 0U);
  EXPECT_EQ(colls[0].u.coll.ops_ended, 1U);
  EXPECT_EQ(colls[0].u.coll.kernels_started, 0U);
}

}  // namespace
}  // namespace stalltrace::plugin::testing
