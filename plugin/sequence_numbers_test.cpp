// SPDX-License-Identifier: Apache-2.0
// Collectives are numbered at their calls: NCCL does not report all of them as a launched collective (from 2.29 on a
// Broadcast is not), and ranks must agree on the numbers of the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "plugin/testing/host.h"

namespace stalltrace::plugin::testing {
namespace {

template <typename V>
class CallNumbers : public LibraryTest {
 protected:
  void* group(Job<V>& job) { return job.start(job.descriptor(nccl::kEventGroupApi, nullptr)); }

  void* call(Job<V>& job, void* group, const char* function, bool captured = false) {
    auto event = job.descriptor(nccl::kEventCollApi, group);
    event.coll_api.function = function;
    event.coll_api.count = 1024;
    event.coll_api.datatype = "ncclFloat32";
    event.coll_api.graph_captured = captured;
    void* handle = job.start(event);
    job.stop(handle);
    return handle;
  }

  void launch(Job<V>& job, void* call) { job.stop(job.coll(call, {})); }

  /// Numbers of the launched collectives, in launch order.
  std::vector<uint64_t> numbers() {
    std::vector<st_box_event> open = folder_.read().open;
    std::erase_if(open, [](const st_box_event& event) { return event.type != ST_BOX_COLL; });
    std::ranges::sort(open, {}, &st_box_event::start_ns);
    std::vector<uint64_t> numbers;
    std::ranges::transform(open, std::back_inserter(numbers),
                           [](const auto& event) { return event.u.coll.call_number; });
    return numbers;
  }
  using LibraryTest::folder_;
  using LibraryTest::library_;
};
using Versions = ::testing::Types<V5, V6>;
TYPED_TEST_SUITE(CallNumbers, Versions);

using Numbers = std::vector<uint64_t>;

TYPED_TEST(CallNumbers, ACallThatLaunchesNothingHasItsNumber) {
  Job<TypeParam> job(this->library_);
  void* group = this->group(job);
  void* first = this->call(job, group, "AllReduce");
  this->launch(job, first);
  this->call(job, group, "Broadcast");
  this->launch(job, this->call(job, group, "AllReduce"));
  EXPECT_EQ(this->numbers(), (Numbers{0, 2}));
  const auto calls = this->folder_.read().of_type(ST_BOX_COLL_API);
  ASSERT_EQ(calls.size(), 3U);
  for (uint64_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].u.api.call_ordinal, i + 1);
  }
}

TYPED_TEST(CallNumbers, AGroupLaunchedInAnotherOrderKeepsThoseOfItsCalls) {
  Job<TypeParam> job(this->library_);
  void* group = this->group(job);
  std::vector<void*> calls(3);
  for (void*& call : calls) {
    call = this->call(job, group, "AllReduce");
  }
  for (const size_t i : {2, 0, 1}) {
    this->launch(job, calls[i]);
  }
  EXPECT_EQ(this->numbers(), (Numbers{2, 0, 1}));
}

TYPED_TEST(CallNumbers, LargeGroupsKeepAll) {
  constexpr uint64_t kCalls = 1000;
  Job<TypeParam> job(this->library_);
  void* group = this->group(job);
  std::vector<void*> calls(kCalls);
  for (void*& call : calls) {
    call = this->call(job, group, "AllReduce");
  }
  for (void* call : calls) {
    this->launch(job, call);
  }
  const Numbers numbers = this->numbers();
  ASSERT_EQ(numbers.size(), kCalls);
  for (uint64_t i = 0; i < kCalls; ++i) {
    ASSERT_EQ(numbers[i], i);
  }
}

TYPED_TEST(CallNumbers, OfAGraphEachRunCountsAndNotTheCapture) {
  Job<TypeParam> job(this->library_);
  void* group = this->group(job);
  this->launch(job, this->call(job, group, "AllReduce"));
  void* captured = this->call(job, group, "AllReduce", true);
  this->launch(job, captured);
  this->launch(job, captured);
  this->launch(job, this->call(job, group, "AllReduce"));
  EXPECT_EQ(this->numbers(), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(this->folder_.read().of_type(ST_BOX_COLL_API)[1].u.api.call_ordinal, 0U);
}

TYPED_TEST(CallNumbers, EachCommunicatorHasItsOwn) {
  Job<TypeParam> job(this->library_);
  Job<TypeParam> other(this->library_, 0xbeef);
  this->call(job, this->group(job), "Broadcast");
  this->launch(other, this->call(other, this->group(other), "AllReduce"));
  this->launch(job, this->call(job, this->group(job), "AllReduce"));
  const BoxView view = this->folder_.read();
  ASSERT_EQ(view.communicators.size(), 2U);
  EXPECT_EQ(view.communicators[0].collectives, 2U);
  EXPECT_EQ(view.communicators[1].collectives, 1U);
}

TYPED_TEST(CallNumbers, WhereCallsAreNotReportedLaunchesCount) {
  Job<TypeParam> job(this->library_);
  this->launch(job, nullptr);
  this->launch(job, nullptr);
  EXPECT_EQ(this->numbers(), (Numbers{0, 1}));
}

class CopyEngineNumbers : public CallNumbers<V6> {};

TEST_F(CopyEngineNumbers, AreThoseOfTheirCalls) {
  Job<V6> job(library_);
  void* group = this->group(job);
  launch(job, call(job, group, "AllReduce"));
  auto event = job.descriptor(nccl::kEventCeColl, call(job, group, "AllGather"));
  job.stop(job.start(event));
  event.parent = call(job, group, "AllGather", true);
  job.stop(job.start(event));
  event.parent = nullptr;
  job.stop(job.start(event));
  const auto copies = folder_.read().of_type(ST_BOX_CE_COLL);
  ASSERT_EQ(copies.size(), 3U);
  EXPECT_EQ(copies[0].u.ce.call_ordinal, 2U);
  EXPECT_EQ(copies[1].u.ce.call_ordinal, 0U) << "captured: not run";
  EXPECT_EQ(copies[2].u.ce.call_ordinal, 3U) << "its call is not kept";
}

}  // namespace
}  // namespace stalltrace::plugin::testing
