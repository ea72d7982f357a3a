// SPDX-License-Identifier: Apache-2.0
// A few threads that do jobs in the order given. Without threads a job is done when it is given. Internal to store/.
#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"

namespace stalltrace {

class Workers {
 public:
  using Job = std::packaged_task<Status()>;

  explicit Workers(size_t threads) {
    for (size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }

  /// One thread submits. A job not begun when the Workers go is dropped; one begun is waited for.
  std::future<Status> submit(Job job) {
    std::future<Status> result = job.get_future();
    if (threads_.empty()) {
      job();
      return result;
    }
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    ready_.notify_one();
    return result;
  }

 private:
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (ready_.wait(lock, stop, [this] { return !jobs_.empty(); }) && !stop.stop_requested()) {
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any ready_;
  std::deque<Job> jobs_;
  std::vector<std::jthread> threads_;  // last: they stop before what they use goes
};

}  // namespace stalltrace
