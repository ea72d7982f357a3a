// SPDX-License-Identifier: Apache-2.0
// A thread of the test program, for code that looks into threads.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace stalltrace::stacks {

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

}  // namespace stalltrace::stacks
