// SPDX-License-Identifier: Apache-2.0
// Each job runs once, in a worker or in the waiting thread; jobs that have not begun are dropped with the workers.
#include "store/read/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace stalltrace::store {
namespace {

TEST(WorkersTest, EveryJobIsDoneOnce) {
  for (const size_t threads : {0U, 1U, 3U}) {
    std::array<std::atomic<int>, 200> done{};
    ThreadPool workers(threads);
    std::deque<std::future<Status>> made;
    for (std::atomic<int>& count : done) {
      made.push_back(workers.submit(ThreadPool::Job([&count] {
        ++count;
        return Status();
      })));
    }
    for (std::future<Status>& job : made) {
      EXPECT_TRUE(workers.finish(job).has_value());
    }
    EXPECT_TRUE(std::all_of(done.begin(), done.end(), [](const auto& count) { return count == 1; })) << threads;
  }
}

TEST(WorkersTest, AnErrorIsTheJobsOwn) {
  ThreadPool workers(1);
  auto good = workers.submit(ThreadPool::Job([] { return Status(); }));
  auto bad = workers.submit(ThreadPool::Job([]() -> Status { return fail("torn", "give another"); }));
  const Status status = workers.finish(bad);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().what, "torn");
  EXPECT_TRUE(workers.finish(good).has_value());
}

TEST(WorkersTest, WhoWaitsDoesOtherJobsDuringIt) {
  std::latch begun(1);
  std::latch helped(1);
  ThreadPool workers(1);
  auto slow = workers.submit(ThreadPool::Job([&] {  // ends when another thread runs the next job
    begun.count_down();
    helped.wait();
    return Status();
  }));
  begun.wait();
  std::thread::id helper;
  auto next = workers.submit(ThreadPool::Job([&] {
    helper = std::this_thread::get_id();
    helped.count_down();
    return Status();
  }));
  EXPECT_TRUE(workers.finish(slow).has_value());
  EXPECT_TRUE(workers.finish(next).has_value());
  EXPECT_EQ(helper, std::this_thread::get_id());
}

TEST(WorkersTest, JobsNotBegunAreDropped) {
  std::atomic<int> done = 0;
  std::latch begun(1);
  std::future<Status> first;
  std::future<Status> second;
  {
    ThreadPool workers(1);
    first = workers.submit(ThreadPool::Job([&] {
      begun.count_down();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the workers end during this
      ++done;
      return Status();
    }));
    begun.wait();
    second = workers.submit(ThreadPool::Job([&] {
      ++done;
      return Status();
    }));
  }
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(first.get().has_value());
  EXPECT_THROW(second.get(), std::future_error);
}

}  // namespace
}  // namespace stalltrace::store
