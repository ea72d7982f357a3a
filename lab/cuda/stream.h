// SPDX-License-Identifier: Apache-2.0
// A stream of the CUDA stand-in: an ordered queue of work and of events, which mark a position in the queue. Host work
// runs on the stream's worker thread. A device needs no thread wake-up between two items, so the thread that brings the
// stream to an event, a wait or a kernel executes it. Any thread may call any function here, and none of them holds a
// lock while it calls another's code. A worker outlives its Stream until the queued work is done, so that destroying a
// stream never blocks, as in the real library.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace lab::cuda {

/// One recording of an event, or the end of a kernel: done once reached.
class Mark {
 public:
  /// Runs everything that waits for the mark, on the calling thread.
  void reach();
  void wait() const;
  /// True if the mark is reached; otherwise `go_on` will be called when it is.
  [[nodiscard]] bool reached_or(std::function<void()> go_on);
  [[nodiscard]] bool reached() const;
  /// Valid once reached.
  [[nodiscard]] std::chrono::steady_clock::time_point time() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::function<void()>> waiting_;
  bool reached_ = false;
  std::chrono::steady_clock::time_point time_;
};

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Runs `work` on the worker thread, after everything enqueued before it.
  void enqueue(std::function<void()> work);
  /// Calls `pass`, which must be short, on the thread that brings the stream there.
  void enqueue_short(std::function<void()> pass);
  /// Work enqueued later waits until `mark` is reached.
  void wait_for(std::shared_ptr<Mark> mark);
  /// True when everything enqueued so far has run.
  [[nodiscard]] bool idle() const;
  /// Blocks until everything enqueued before the call has run.
  void synchronize() const;

 private:
  class Queue;

  std::shared_ptr<Queue> queue_;
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
