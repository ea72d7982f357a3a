// SPDX-License-Identifier: Apache-2.0
// A few threads that run jobs in submission order. A thread that waits for a job runs other jobs instead of sleeping:
// waking a thread for every small job costs time, even on one core. Internal to store/.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/result.h"

namespace stalltrace::store {

class ThreadPool {
 public:
  using Job = std::packaged_task<Status()>;

  /// As many threads as can be started. With none, finish() runs all jobs.
  explicit ThreadPool(size_t threads) {
    try {
      while (threads_.size() < threads) {
        threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
      }
    } catch (const std::system_error&) {  // a limit of the user, or of a container: the work is done by fewer
    }
  }

  /// One thread submits and finishes. Jobs that have not begun when the ThreadPool is destroyed are dropped; running
  /// ones are awaited.
  std::future<Status> submit(Job job) {
    std::future<Status> result = job.get_future();
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    ready_.notify_one();
    return result;
  }

  /// The result of the job. The caller runs jobs, this one or others, until it is done.
  Status finish(std::future<Status>& made) {
    std::unique_lock lock(mutex_, std::defer_lock);
    while (made.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      lock.lock();
      const bool done = do_one(lock);
      lock.unlock();
      if (!done) {
        break;
      }
    }
    return made.get();
  }

 private:
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (ready_.wait(lock, stop, [this] { return !jobs_.empty(); }) && !stop.stop_requested()) {
      do_one(lock);
    }
  }

  /// Runs the oldest job without the lock; false if there is none.
  bool do_one(std::unique_lock<std::mutex>& lock) {
    if (jobs_.empty()) {
      return false;
    }
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
    return true;
  }

  std::mutex mutex_;
  std::condition_variable_any ready_;
  std::deque<Job> jobs_;
  std::vector<std::jthread> threads_;  // last member: the threads stop before the members they use are destroyed
};

}  // namespace stalltrace::store
