// SPDX-License-Identifier: Apache-2.0
#include "base/resource_limits.h"

#include <sys/resource.h>

#include <atomic>
#include <mutex>

namespace stalltrace {
namespace {

rlimit g_files{};
rlimit g_locked_memory{};
std::atomic<bool> g_raised{false};

}  // namespace

void raise_limits() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (::getrlimit(RLIMIT_NOFILE, &g_files) != 0 || ::getrlimit(RLIMIT_MEMLOCK, &g_locked_memory) != 0) {
      return;
    }
    g_raised = true;
    const rlimit raised{.rlim_cur = g_files.rlim_max, .rlim_max = g_files.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &raised);
  });
}

uint64_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

void restore_limits() noexcept {
  if (g_raised) {
    ::setrlimit(RLIMIT_NOFILE, &g_files);
    ::setrlimit(RLIMIT_MEMLOCK, &g_locked_memory);
  }
}

}  // namespace stalltrace
