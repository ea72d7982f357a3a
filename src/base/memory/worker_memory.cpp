// SPDX-License-Identifier: Apache-2.0
#include "base/memory/worker_memory.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/handle.h"
#include "base/io/write_all.h"
#include "base/memory/memory_limit.h"

namespace stalltrace {
namespace {

constexpr uint64_t kShareOfMemory = 4;
constexpr uint64_t kLeastMemory = 1ULL << 30;
constexpr uint64_t kMostMemory = 16ULL << 30;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryCanBeLimited = false;
#else
constexpr bool kMemoryCanBeLimited = true;
#endif

}  // namespace

uint64_t memory_of_a_worker() { return std::clamp(memory_limit() / kShareOfMemory, kLeastMemory, kMostMemory); }

void limit_worker_memory() {
  rlimit limit{};
  if (kMemoryCanBeLimited && ::getrlimit(RLIMIT_AS, &limit) == 0) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, memory_of_a_worker());
    ::setrlimit(RLIMIT_AS, &limit);
  }
}

void go_first_when_memory_runs_out() {
  const UniqueFd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  (void)write_all(file.get(), "1000");
}

}  // namespace stalltrace
