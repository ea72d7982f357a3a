// SPDX-License-Identifier: Apache-2.0
// Many threads, more events than there is room for, and a ring that wraps repeatedly.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "plugin/testing/host.h"

namespace stalltrace::plugin::testing {
namespace {

class Load : public ::testing::Test {
 protected:
  BoxFolder folder_;
  Library library_;
};

uint64_t sum_of_losses(const st_box_header& header) {
  uint64_t sum = 0;
  for (const uint64_t lost : header.lost) {
    sum += lost;
  }
  return sum;
}

/// A complete collective; `count` and `sequence` repeat the same number, so that a torn record would show.
void run_collective(Job<V5>& job, uint64_t number) {
  void* coll = job.coll(nullptr, {.sequence = number, .count = number * 3 + 1, .channels = 1});
  void* op = job.op(coll, true, static_cast<int>(number % 1000));
  void* kernel = job.kernel(coll, 0, 100);
  job.stop(coll);
  void* step = job.step(op, 0);
  job.state(step, nccl::kStateSendGpuWait);
  job.state(step, nccl::kStateSendWait, 10);
  job.stop(step);
  job.kernel_stop(kernel, 200);
  job.stop(op);
}

TEST_F(Load, ManyThreadsWithCommunicatorsOfTheirOwn) {
  constexpr int kThreads = 8;
  constexpr uint64_t kCollectives = 1500;
  std::vector<std::thread> threads;
  Job<V5> keeps_the_file_open(library_);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      Job<V5> job(library_, 1000 + static_cast<uint64_t>(thread), 8, thread);
      for (uint64_t number = 0; number < kCollectives; ++number) {
        run_collective(job, number);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const BoxView view = folder_.read();
  EXPECT_EQ(view.unreadable, 0U);
  EXPECT_TRUE(view.open.empty());
  EXPECT_EQ(sum_of_losses(view.header), 0U);
  ASSERT_EQ(view.communicators.size(), kThreads + 1U);
  std::set<std::pair<uint32_t, uint64_t>> seen;
  for (const st_box_event& event : view.of_type(ST_BOX_COLL)) {
    const st_box_coll& coll = event.u.coll;
    EXPECT_TRUE(seen.emplace(event.communicator, coll.sequence).second) << "reported twice";
    EXPECT_EQ(coll.count, coll.sequence * 3 + 1);
    EXPECT_EQ(coll.call_number, coll.sequence);
    EXPECT_EQ(coll.ops_ended, 1);
    EXPECT_EQ(coll.kernels_ended, 1);
    EXPECT_GE(event.end_ns, event.start_ns);
  }
  EXPECT_EQ(seen.size(), kThreads * kCollectives);
  const auto ops = view.of_type(ST_BOX_PROXY_OP);
  EXPECT_EQ(ops.size(), kThreads * kCollectives);
  for (const st_box_event& op : ops) {
    EXPECT_EQ(op.u.proxy_op.transferred_bytes, 10U);
    EXPECT_EQ(op.u.proxy_op.steps_ended, 1U);
  }
}

TEST_F(Load, OneCollectivesPartsOnManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kParts = 300;  // few enough that the ring holds every repetition
  Job<V6> job(library_);
  for (int round = 0; round < 5; ++round) {
    void* coll = job.coll(nullptr, {.sequence = static_cast<uint64_t>(round), .channels = 0});
    void* held = job.op(coll, false, kParts);  // else it ends where all threads are between two parts
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&job, coll] {
        for (int part = 0; part < kParts; ++part) {
          void* op = job.op(coll, false, part);
          void* step = job.step(op, 0);
          job.state(step, nccl::kStateRecvWait);
          job.stop(step);
          job.stop(op);
        }
      });
    }
    job.stop(coll);
    for (std::thread& thread : threads) {
      thread.join();
    }
    job.stop(held);
  }
  const BoxView view = folder_.read();
  EXPECT_TRUE(view.open.empty());
  const auto colls = view.of_type(ST_BOX_COLL);
  ASSERT_EQ(colls.size(), 5U);
  for (const st_box_event& coll : colls) {
    EXPECT_EQ(coll.u.coll.ops_started, kThreads * kParts + 1);
    EXPECT_EQ(coll.u.coll.ops_ended, coll.u.coll.ops_started);
  }
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_LATE_PART], 0U);
}

TEST_F(Load, ThreadsThatEndTheSameEvents) {
  Job<V6> job(library_);
  constexpr int kRounds = 2000;
  std::vector<void*> handles(kRounds);
  for (int round = 0; round < kRounds; ++round) {
    handles[static_cast<size_t>(round)] = job.op(nullptr, true, round);
  }
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      for (void* handle : handles) {
        job.state(handle, nccl::kStateOpInProgress);
        job.stop(handle);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const BoxView view = folder_.read();
  EXPECT_EQ(view.of_type(ST_BOX_PROXY_OP).size(), kRounds);
  EXPECT_EQ(view.ended.size(), kRounds) << "each once";
  EXPECT_GE(view.header.lost[ST_BOX_LOST_STALE_HANDLE], 2U * kRounds);
}

TEST_F(Load, MoreOpenEventsThanSlots) {
  Job<V5> job(library_);
  const uint64_t slots = folder_.read().header.slot_capacity;
  std::vector<void*> handles;
  for (uint64_t event = 0; event < slots + 100; ++event) {
    handles.push_back(job.op(nullptr, true, 1));
  }
  BoxView view = folder_.read();
  EXPECT_EQ(view.open.size(), slots);
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_NO_SLOT], 100U);
  EXPECT_EQ(handles.back(), nullptr);
  for (void* handle : handles) {
    job.stop(handle);
  }
  EXPECT_NE(job.op(nullptr, true, 1), nullptr);
  view = folder_.read();
  EXPECT_EQ(view.of_type(ST_BOX_PROXY_OP).size(), slots);
}

TEST_F(Load, CollectivesWithoutPartsMakeRoomAndOpenOnesDoNot) {
  Job<V5> job(library_);
  const uint64_t slots = folder_.read().header.slot_capacity;
  void* hung = job.coll(nullptr, {.sequence = 12345});
  job.stop(hung);
  void* op = job.op(hung, false, 3);
  for (uint64_t event = 0; event < 3 * slots; ++event) {
    job.stop(job.coll(nullptr, {.sequence = event}));
  }
  BoxView view = folder_.read();
  const auto is_hung = [hung](const st_box_event& event) { return event.id == reinterpret_cast<uint64_t>(hung); };
  EXPECT_EQ(std::count_if(view.open.begin(), view.open.end(), is_hung), 1);
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_NO_SLOT], 0U);
  EXPECT_GE(view.header.lost[ST_BOX_LOST_EVICTED], slots);
  for (const st_box_event& event : view.of_type(ST_BOX_COLL)) {
    EXPECT_NE(event.flags & ST_BOX_UNFINISHED, 0);
    EXPECT_EQ(event.end_ns, 0U);
  }
  job.stop(op);
  EXPECT_FALSE(folder_.read().of_type(ST_BOX_COLL).empty());
}

TEST_F(Load, TheRingKeepsTheNewest) {
  Job<V5> job(library_);
  const uint64_t capacity = folder_.read().header.ring_capacity;
  const uint64_t collectives = capacity;  // two records each
  for (uint64_t number = 0; number < collectives; ++number) {
    run_collective(job, number);
  }
  const BoxView view = folder_.read();
  ASSERT_GE(view.header.ring_head, 2 * collectives);
  const uint64_t long_steps = view.header.ring_head - 2 * collectives;  // this thread lost its CPU for that long
  EXPECT_EQ(view.ended.size(), capacity);
  EXPECT_EQ(view.unreadable, 0U);
  const auto colls = view.of_type(ST_BOX_COLL);
  ASSERT_LE(colls.size(), capacity / 2);
  ASSERT_GE(colls.size(), (capacity - long_steps) / 2);
  EXPECT_EQ(colls.front().u.coll.sequence, collectives - colls.size());
  EXPECT_EQ(colls.back().u.coll.sequence, collectives - 1);
}

TEST_F(Load, MoreCommunicatorsThanTheTableHolds) {
  std::vector<std::unique_ptr<Job<V5>>> jobs;
  for (int round = 0; round < 3; ++round) {  // destroyed communicators make room
    jobs.clear();
    for (uint64_t number = 0; number < 400; ++number) {
      jobs.push_back(std::make_unique<Job<V5>>(library_, number + 1));
    }
  }
  EXPECT_EQ(folder_.read().header.lost[ST_BOX_LOST_NO_COMMUNICATOR], 0U);
  for (uint64_t number = 0; number < 200; ++number) {
    jobs.push_back(std::make_unique<Job<V5>>(library_, number + 1));
  }
  run_collective(*jobs.back(), 1);
  const BoxView view = folder_.read();
  EXPECT_EQ(view.header.lost[ST_BOX_LOST_NO_COMMUNICATOR], 600 - view.header.communicator_capacity);
  EXPECT_EQ(view.of_type(ST_BOX_COLL).at(0).communicator, 0U);
  EXPECT_EQ(view.of_type(ST_BOX_COLL).at(0).u.coll.call_number, ST_BOX_NUMBER_UNKNOWN);
}

}  // namespace
}  // namespace stalltrace::plugin::testing
