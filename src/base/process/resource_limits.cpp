// SPDX-License-Identifier: Apache-2.0
#include "base/process/resource_limits.h"

#include <sys/resource.h>

#include <atomic>
#include <mutex>

namespace stalltrace {
namespace {

/// The original limits, once they are raised.
struct Original {
  rlimit files{};
  rlimit locked_memory{};
  std::atomic<bool> known{false};
};

Original& original() {
  static constinit Original limits;
  return limits;
}

}  // namespace

void raise_limits() {
  static std::once_flag once;
  std::call_once(once, [] {
    Original& found = original();
    if (::getrlimit(RLIMIT_NOFILE, &found.files) != 0 || ::getrlimit(RLIMIT_MEMLOCK, &found.locked_memory) != 0) {
      return;
    }
    found.known = true;
    const rlimit raised{.rlim_cur = found.files.rlim_max, .rlim_max = found.files.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &raised);
  });
}

uint64_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

void restore_limits() noexcept {
  const Original& found = original();
  if (found.known) {
    ::setrlimit(RLIMIT_NOFILE, &found.files);
    ::setrlimit(RLIMIT_MEMLOCK, &found.locked_memory);
  }
}

}  // namespace stalltrace
