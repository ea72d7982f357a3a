// SPDX-License-Identifier: Apache-2.0
#include "proxy.h"

#include <cuda_runtime.h>
#include <pthread.h>

#include <array>
#include <cstdio>
#include <utility>

#include "debug.h"
#include "result.h"

namespace lab::nccl {

Proxy::Proxy(int rank, int nranks, int device, Links links, Profiler* profiler)
    : rank_(rank), nranks_(nranks), device_(device), profiler_(profiler), links_(std::move(links)), thread_([this] {
        run();
      }) {}

Proxy::~Proxy() {
  queue_->close();
  thread_.join();
}

void Proxy::run() {
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "NCCL Progress%2u", static_cast<unsigned>(device_) % 100);
  pthread_setname_np(pthread_self(), name.data());
  cudaSetDevice(device_);
  while (!queue_->closed()) {
    append_posted();
    start_next();
    if (execution_ != nullptr && async_error_ == ncclSuccess) {
      advance();
    }
    if (execution_ != nullptr || async_error_ != ncclSuccess || !may_start()) {
      wait();
    }
  }
  if (execution_ != nullptr) {
    execution_->plan().finish();
  }
  for (const auto& waiting : appended_) {
    waiting->plan().finish();
  }
}

void Proxy::append_posted() {
  if (profiler_ == nullptr) {
    return;
  }
  const std::deque<std::shared_ptr<Plan>> posted = queue_->take_all();
  if (posted.empty()) {
    return;
  }
  ControlEvent control(profiler_);
  control.record(abi::kStateCtrlAppend);
  int operations = 0;
  for (const std::shared_ptr<Plan>& plan : posted) {
    appended_.push_back(std::make_unique<Execution>(plan, rank_, nranks_, *scratch_, profiler_));
    operations += appended_.back()->proxy_operations();
  }
  control.record(abi::kStateCtrlAppendEnd, operations);
}

void Proxy::start_next() {
  if (execution_ != nullptr) {
    return;
  }
  links_.copy_engine().refresh();
  if (!appended_.empty()) {
    execution_ = std::move(appended_.front());
    appended_.pop_front();
  } else if (auto plan = profiler_ == nullptr ? queue_->take_ready() : nullptr; plan != nullptr) {
    execution_ = std::make_unique<Execution>(std::move(plan), rank_, nranks_, *scratch_, profiler_);
  }
}

void Proxy::advance() {
  if (!execution_->plan().ready()) {
    execution_->begin();
    return;
  }
  bool done = false;
  bool moved = false;
  if (const ncclResult_t result = execution_->advance(links_, &done, &moved); result != ncclSuccess) {
    info(kProxy | kNet, "[Proxy Progress] transfers stopped with %d", result);
    async_error_ = result;
  }
  report_idle(!moved);
  if (done) {
    execution_->plan().finish();
    execution_.reset();
    queue_->note_finished();
  }
}

/// As NCCL's proxy, reports when it becomes idle and when it stops being idle.
void Proxy::report_idle(bool idle) {
  if (profiler_ != nullptr && idle != std::exchange(idle_, idle)) {
    ControlEvent(profiler_).record(idle ? abi::kStateCtrlIdle : abi::kStateCtrlActive);
  }
}

/// The proxy sleeps when it has no operation.
void Proxy::wait_for_events() {
  ControlEvent control(execution_ == nullptr ? profiler_ : nullptr);
  control.record(abi::kStateCtrlSleep);
  if (poll(polls_.data(), polls_.size(), -1) < 0) {
    for (pollfd& entry : polls_) {
      entry.revents = 0;
    }
  }
  control.record(abi::kStateCtrlWakeup);
}

void Proxy::wait() {
  polls_.clear();
  polls_.push_back({.fd = queue_->wake_fd(), .events = POLLIN, .revents = 0});
  size_t own = 1;
  if (async_error_ == ncclSuccess) {
    links_.add_polls(&polls_);
    own = polls_.size();
    if (execution_ != nullptr) {
      execution_->add_polls(links_, &polls_);
    }
  }
  wait_for_events();
  if (polls_[0].revents != 0) {
    queue_->drain_wakes();
  }
  for (size_t i = 1; i < own; ++i) {
    if (polls_[i].revents != 0) {
      if (const ncclResult_t result = links_.progress(); result != ncclSuccess) {
        async_error_ = result;
      }
      return;
    }
  }
}

}  // namespace lab::nccl
