// SPDX-License-Identifier: Apache-2.0
// A stream of the CUDA stand-in: one worker thread that runs queued work in order, and events, which mark a place in
// such a queue. Any thread may call any function here. A worker outlives its Stream until the queued work is done,
// so that destroying a stream never blocks, as with the real library.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace lab::cuda {

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Runs `work` on the worker thread, after everything enqueued before it.
  void enqueue(std::function<void()> work);
  /// True when everything enqueued so far has run.
  [[nodiscard]] bool idle() const;
  /// Blocks until everything enqueued before the call has run.
  void synchronize() const;

 private:
  struct Queue;
  static void work_loop(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;
};

/// One recording of an event: done once the stream has reached it.
class Mark {
 public:
  void reach();
  void wait() const;
  [[nodiscard]] bool reached() const;
  /// Valid once reached.
  [[nodiscard]] std::chrono::steady_clock::time_point time() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool reached_ = false;
  std::chrono::steady_clock::time_point time_;
};

/// An event holds its latest recording; null before the first.
class Event {
 public:
  void record(Stream& stream);
  [[nodiscard]] std::shared_ptr<Mark> latest() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Mark> latest_;
};

}  // namespace lab::cuda
