// SPDX-License-Identifier: Apache-2.0
#include "launch/supervision/worker.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "launch/supervision/memory_limit.h"

namespace stalltrace::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDying{1000};
constexpr uint64_t kShareOfMemory = 4;
constexpr uint64_t kLeastMemory = 1ULL << 30;
constexpr uint64_t kMostMemory = 16ULL << 30;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryCanBeLimited = false;  // their shadow memory is larger than any limit
#else
constexpr bool kMemoryCanBeLimited = true;
#endif

/// Where the kernel has to choose, it takes us instead of the job. Raising it needs no privilege.
void go_first_when_memory_runs_out() {
  const UniqueFd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  (void)!::write(file.get(), "1000", 4);
}

void limit_memory() {
  rlimit limit{};
  if (kMemoryCanBeLimited && ::getrlimit(RLIMIT_AS, &limit) == 0) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, memory_of_a_worker());
    ::setrlimit(RLIMIT_AS, &limit);
  }
}

int do_work(WorkerSide& side, const Worker::Work& work) {
  try {
    return work(side);
  } catch (const std::bad_alloc&) {
    std::fputs("stalltrace: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stalltrace: unexpected: %s; report it with the command\n", error.what());
  }
  return Worker::kFailedCode;
}

[[noreturn]] void live(const char* name, pid_t parent, WorkerSide& side, const Worker::Work& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(0);
  }
  ::prctl(PR_SET_NAME, name);
  go_first_when_memory_runs_out();
  limit_memory();
  const int code = do_work(side, work);
  std::fflush(nullptr);
  ::_exit(code);  // what this process was a copy of is its parent's to take down
}

}  // namespace

Result<Worker> Worker::start(const char* name, const Work& work) {
  ST_ASSIGN(auto ends, Channel::make());
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) {
    return fail_errno("make an eventfd", errno);
  }
  std::fflush(nullptr);  // or both processes would write what waits there
  const pid_t self = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return fail_errno("fork", errno);
  }
  if (pid == 0) {
    ends.first.close();
    WorkerSide side{.channel = std::move(ends.second), .stop = std::move(stop)};
    live(name, self, side, work);
  }
  ST_ASSIGN(Subprocess process, Subprocess::adopt(pid));
  return Worker(std::move(process), std::move(ends.first), std::move(stop));
}

Worker::~Worker() { kill(); }

void Worker::ask_to_finish() {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
}

std::optional<ExitStatus> Worker::wait_for(milliseconds limit) {
  return process_.wait_for(limit).value_or(ExitStatus{});
}

void Worker::kill() {
  if (!process_.running()) {
    return;
  }
  (void)process_.send_signal(SIGKILL);
  if (const auto ended = process_.wait_for(kDying); !ended || !*ended) {
    process_.detach();
  }
}

std::optional<std::string> unexpected_end(const ExitStatus& status) {
  if (status.signal) {
    return "was ended by " + format_exit(status);
  }
  if (!status.code || *status.code == Worker::kFailedCode) {
    return "gave up";
  }
  return std::nullopt;
}

uint64_t memory_of_a_worker() { return std::clamp(memory_limit() / kShareOfMemory, kLeastMemory, kMostMemory); }

}  // namespace stalltrace::launch
