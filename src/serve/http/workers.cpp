// SPDX-License-Identifier: Apache-2.0
#include "serve/http/workers.h"

#include <system_error>

namespace stalltrace::serve {

Status Workers::start(size_t threads) {
  try {
    while (threads_.size() < threads) {
      threads_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error& error) {
    return fail_errno("serve: start a thread", error.code().value(),
                      "raise the limit of processes and threads (ulimit -u, or pids.max of the container)");
  }
  return {};
}

void Workers::rethrow() {
  const std::lock_guard lock(mutex_);
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

void Workers::work() {
  try {
    io_.run();
  } catch (const std::exception&) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = failure_ ? failure_ : std::current_exception();
    }
    on_failure_();
  }
}

}  // namespace stalltrace::serve
