// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include <pthread.h>

#include <cstdint>
#include <deque>
#include <thread>
#include <utility>

namespace lab::cuda {

/// At most one party at a time advances the stream: a thread in carry_on(), the worker, or the mark that the stream
/// waits for. A thread that adds work to a stream without such a party advances it.
class Stream::Queue : public std::enable_shared_from_this<Queue> {
 public:
  enum class Kind { kHost, kShort, kWait };
  struct Item {
    Kind kind;
    std::function<void()> work;
    std::shared_ptr<Mark> mark;  // for a wait
  };

  void push(Item item) {
    std::unique_lock lock(mutex_);
    items_.push_back(std::move(item));
    submitted_++;
    if (!std::exchange(carried_, true)) {
      carry_on(std::move(lock));
    }
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    turn_.notify_one();
  }

  bool idle() const {
    const std::lock_guard lock(mutex_);
    return completed_ == submitted_;
  }

  void synchronize() const {
    std::unique_lock lock(mutex_);
    completed_more_.wait(lock, [this, target = submitted_] { return completed_ >= target; });
  }

  void work_loop() {
    pthread_setname_np(pthread_self(), "cuda-Stream");
    std::unique_lock lock(mutex_);
    while (true) {
      turn_.wait(lock, [this] { return workers_turn_ || (closed_ && !carried_); });
      if (!std::exchange(workers_turn_, false)) {
        return;
      }
      run_front(lock);
      carry_on(std::move(lock));
      lock = std::unique_lock(mutex_);
    }
  }

 private:
  /// Called by the party that advances the stream. Executes everything that needs no worker, then passes the stream to
  /// the worker, to a mark, or to the next push().
  void carry_on(std::unique_lock<std::mutex> lock) {
    while (!items_.empty() && items_.front().kind != Kind::kHost) {
      if (items_.front().kind == Kind::kShort) {
        run_front(lock);
        continue;
      }
      const std::shared_ptr<Mark> mark = items_.front().mark;
      lock.unlock();
      if (!mark->reached_or([self = shared_from_this()] { self->pass_wait(); })) {
        return;
      }
      lock.lock();
      complete_front();
    }
    if (items_.empty()) {
      carried_ = false;
    } else {
      workers_turn_ = true;
    }
    if (workers_turn_ || closed_) {
      turn_.notify_one();
    }
  }

  void pass_wait() {
    std::unique_lock lock(mutex_);
    complete_front();
    carry_on(std::move(lock));
  }

  void run_front(std::unique_lock<std::mutex>& lock) {
    std::function<void()> work = std::move(items_.front().work);
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    complete_front();
  }

  void complete_front() {
    items_.pop_front();
    completed_++;
    completed_more_.notify_all();
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable completed_more_;
  std::condition_variable turn_;
  std::deque<Item> items_;
  uint64_t submitted_ = 0;
  uint64_t completed_ = 0;
  bool carried_ = false;
  bool workers_turn_ = false;
  bool closed_ = false;
};

void Mark::reach() {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    reached_ = true;
    time_ = std::chrono::steady_clock::now();
    waiting.swap(waiting_);
    changed_.notify_all();
  }
  for (const auto& go_on : waiting) {
    go_on();
  }
}

void Mark::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
}

bool Mark::reached_or(std::function<void()> go_on) {
  const std::lock_guard lock(mutex_);
  if (!reached_) {
    waiting_.push_back(std::move(go_on));
  }
  return reached_;
}

bool Mark::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

std::chrono::steady_clock::time_point Mark::time() const {
  const std::lock_guard lock(mutex_);
  return time_;
}

Stream::Stream() : queue_(std::make_shared<Queue>()) {
  std::thread([queue = queue_] { queue->work_loop(); }).detach();
}

Stream::~Stream() { queue_->close(); }

void Stream::enqueue(std::function<void()> work) {
  queue_->push({.kind = Queue::Kind::kHost, .work = std::move(work), .mark = nullptr});
}

void Stream::enqueue_short(std::function<void()> pass) {
  queue_->push({.kind = Queue::Kind::kShort, .work = std::move(pass), .mark = nullptr});
}

void Stream::wait_for(std::shared_ptr<Mark> mark) {
  queue_->push({.kind = Queue::Kind::kWait, .work = nullptr, .mark = std::move(mark)});
}

bool Stream::idle() const { return queue_->idle(); }

void Stream::synchronize() const { queue_->synchronize(); }

void Event::record(Stream& stream) {
  auto mark = std::make_shared<Mark>();
  {
    const std::lock_guard lock(mutex_);
    latest_ = mark;
  }
  stream.enqueue_short([mark] { mark->reach(); });
}

std::shared_ptr<Mark> Event::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace lab::cuda
