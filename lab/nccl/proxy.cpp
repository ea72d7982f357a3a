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

Proxy::Proxy(int rank, int nranks, int device, Links links)
    : rank_(rank), nranks_(nranks), device_(device), links_(std::move(links)), thread_([this] { run(); }) {}

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
    start_next();
    if (execution_ != nullptr && async_error_ == ncclSuccess) {
      advance();
    }
    if (execution_ != nullptr || async_error_ != ncclSuccess || !queue_->has_ready()) {
      wait();
    }
  }
  if (execution_ != nullptr) {
    execution_->plan().finish();
  }
}

void Proxy::start_next() {
  if (execution_ == nullptr) {
    if (auto plan = queue_->take_ready(); plan != nullptr) {
      execution_ = std::make_unique<Execution>(std::move(plan), rank_, nranks_, *scratch_);
    }
  }
}

void Proxy::advance() {
  bool done = false;
  if (const ncclResult_t result = execution_->advance(links_, &done); result != ncclSuccess) {
    info(kProxy | kNet, "[Proxy Progress] transfers stopped with %d", result);
    async_error_ = result;
  }
  if (done) {
    execution_->plan().finish();
    execution_.reset();
    queue_->note_finished();
  }
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
  if (poll(polls_.data(), polls_.size(), -1) < 0) {
    return;
  }
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
