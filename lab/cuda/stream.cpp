// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include <pthread.h>

#include <thread>
#include <utility>

namespace lab::cuda {

struct Stream::Queue {
  std::mutex mutex;
  std::condition_variable submitted_more;
  std::condition_variable completed_more;
  std::deque<std::function<void()>> work;
  uint64_t submitted = 0;
  uint64_t completed = 0;
  bool closed = false;
};

Stream::Stream() : queue_(std::make_shared<Queue>()) {
  std::thread([queue = queue_] { work_loop(queue); }).detach();
}

Stream::~Stream() {
  const std::lock_guard lock(queue_->mutex);
  queue_->closed = true;
  queue_->submitted_more.notify_one();
}

void Stream::enqueue(std::function<void()> work) {
  const std::lock_guard lock(queue_->mutex);
  queue_->work.push_back(std::move(work));
  queue_->submitted++;
  queue_->submitted_more.notify_one();
}

bool Stream::idle() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->completed == queue_->submitted;
}

void Stream::synchronize() const {
  std::unique_lock lock(queue_->mutex);
  const uint64_t target = queue_->submitted;
  queue_->completed_more.wait(lock, [&] { return queue_->completed >= target; });
}

void Stream::work_loop(const std::shared_ptr<Queue>& queue) {
  pthread_setname_np(pthread_self(), "cuda-Stream");
  std::unique_lock lock(queue->mutex);
  while (true) {
    queue->submitted_more.wait(lock, [&] { return queue->closed || !queue->work.empty(); });
    if (queue->work.empty()) {
      return;
    }
    std::function<void()> work = std::move(queue->work.front());
    queue->work.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    queue->completed++;
    queue->completed_more.notify_all();
  }
}

void Mark::reach() {
  const std::lock_guard lock(mutex_);
  reached_ = true;
  time_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

void Mark::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
}

bool Mark::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

std::chrono::steady_clock::time_point Mark::time() const {
  const std::lock_guard lock(mutex_);
  return time_;
}

void Event::record(Stream& stream) {
  auto mark = std::make_shared<Mark>();
  {
    const std::lock_guard lock(mutex_);
    latest_ = mark;
  }
  stream.enqueue([mark] { mark->reach(); });
}

std::shared_ptr<Mark> Event::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace lab::cuda
