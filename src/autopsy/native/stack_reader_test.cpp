// SPDX-License-Identifier: Apache-2.0
// On threads of this process.
#include "autopsy/native/stack_reader.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "base/clock.h"

namespace stalltrace::autopsy {
namespace {

/// Runs `work` on a thread; its number is known when the constructor returns.
class Worker {
 public:
  explicit Worker(auto work)
      : thread_([this, work] {
          tid_ = ::gettid();
          work();
        }) {
    while (tid_ == 0) {
      std::this_thread::yield();
    }
  }
  ~Worker() { thread_.join(); }
  [[nodiscard]] pid_t tid() const { return tid_; }

 private:
  std::atomic<pid_t> tid_ = 0;
  std::thread thread_;
};

TEST(BlockedStack, OfAThreadThatReadsAPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Procfs procfs;
  {
    const Worker worker([&] {
      char byte = 0;
      EXPECT_EQ(::read(ends[0], &byte, 1), 1);
    });
    auto memory = stacks::ProcessMemory::open(procfs, ::getpid());
    ASSERT_TRUE(memory);
    std::optional<StackContent> content;
    const int64_t until_ns = monotonic_now_ns() + 5 * kNsPerSecond;
    while (!content && monotonic_now_ns() < until_ns) {
      content = blocked_stack(procfs, *memory, ::getpid(), worker.tid());
    }
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
    ASSERT_TRUE(content);
    EXPECT_NE(content->ip, 0);
    EXPECT_GT(content->words.size(), 8);
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

/// A sample or a refusal, as of a kernel with perf_event_paranoid 3.
void expect_samples(const std::function<void()>& turn) {
  std::atomic<bool> stop = false;
  Result<std::vector<StackContent>> samples = fail("");
  {
    const Worker worker([&] {
      while (!stop) {
        turn();
      }
    });
    samples = sample_running(worker.tid(), 4 * kNsPerSecond);
    stop = true;
  }
  if (!samples) {
    GTEST_SKIP() << "needs root, or kernel.perf_event_paranoid of 2 or less: " << samples.error().what;
  }
  ASSERT_FALSE(samples->empty());
  EXPECT_GT(samples->front().words.size(), 8);
}

TEST(SampleRunning, AThreadThatComputes) {
  expect_samples([] {});
}

TEST(SampleRunning, AThreadThatGivesUpItsCpu) {
  const Worker other([until_ns = monotonic_now_ns() + 20 * kNsPerMs] {
    while (monotonic_now_ns() < until_ns) {
    }
  });
  expect_samples([] { ::sched_yield(); });
}

}  // namespace
}  // namespace stalltrace::autopsy
