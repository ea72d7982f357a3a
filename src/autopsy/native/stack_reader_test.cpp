// SPDX-License-Identifier: Apache-2.0
// On threads of this process.
#include "autopsy/native/stack_reader.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <functional>

#include "base/clock.h"
#include "stacks/testing/worker.h"

namespace stalltrace::autopsy {
namespace {

using stacks::Worker;

/// A sample or a refusal, as of a kernel with perf_event_paranoid 3.
void expect_samples(const std::function<void()>& turn) {
  std::atomic<bool> stop = false;
  Result<std::vector<stacks::StackContent>> samples = fail("");
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
