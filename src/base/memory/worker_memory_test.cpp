// SPDX-License-Identifier: Apache-2.0
#include "base/memory/worker_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/file.h"
#include "base/memory/memory_limit.h"

namespace stalltrace {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsLimited = false;
#else
constexpr bool kMemoryIsLimited = true;
#endif

rlim_t limit_of_memory() {
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
  return limit.rlim_cur;
}

std::string oom_score() { return read_file("/proc/self/oom_score_adj").value_or(""); }

/// Whether it holds in a child.
bool holds(const std::function<bool()>& what) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(what() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(WorkerMemory, IsAQuarterWithinBounds) {
  EXPECT_EQ(memory_of_a_worker(), std::clamp<uint64_t>(memory_limit() / 4, 1ULL << 30, 16ULL << 30));
}

TEST(WorkerMemory, IsLimitedForTheCallerAndItsChildren) {
  const rlim_t before = limit_of_memory();
  EXPECT_TRUE(holds([&] {
    limit_worker_memory();
    const rlim_t expected = kMemoryIsLimited ? std::min<rlim_t>(before, memory_of_a_worker()) : before;
    return limit_of_memory() == expected && holds([&] { return limit_of_memory() == expected; });
  }));
  EXPECT_EQ(limit_of_memory(), before);
}

TEST(WorkerMemory, ALowerLimitStays) {
  constexpr rlim_t kLower = (1ULL << 30) - 4096;
  if (!kMemoryIsLimited) {
    GTEST_SKIP() << "a sanitizer has more mapped";
  }
  EXPECT_TRUE(holds([&] {
    rlimit limit{};
    ::getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = std::min(kLower, limit.rlim_max);
    ::setrlimit(RLIMIT_AS, &limit);
    limit_worker_memory();
    return limit_of_memory() == limit.rlim_cur;
  }));
}

TEST(WorkerMemory, GoesFirstWhenMemoryRunsOut) {
  const std::string before = oom_score();
  EXPECT_TRUE(holds([] {
    go_first_when_memory_runs_out();
    return oom_score() == "1000\n" && holds([] { return oom_score() == "1000\n"; });
  }));
  EXPECT_EQ(oom_score(), before);
}

}  // namespace
}  // namespace stalltrace
