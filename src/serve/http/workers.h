// SPDX-License-Identifier: Apache-2.0
// The threads on which a server's answers are made. For the server: it brings Asio's headers.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"

namespace stalltrace::serve {

/// Asio's thread_pool never ends where only some of its threads can be started.
class Workers {
 public:
  /// `on_failure` is called on a worker once, when no memory is left to go on.
  explicit Workers(std::function<void()> on_failure) : on_failure_(std::move(on_failure)) {}
  ~Workers() { io_.stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  Status start(size_t threads);
  boost::asio::io_context& io() { return io_; }
  /// Throws what ended a worker, if anything did.
  void rethrow();

 private:
  void work();

  std::function<void()> on_failure_;
  std::mutex mutex_;
  std::exception_ptr failure_;
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> open_{io_.get_executor()};
  std::vector<std::jthread> threads_;  // last member: they end before what they use
};

}  // namespace stalltrace::serve
