// SPDX-License-Identifier: Apache-2.0
#include "launch/supervision/worker.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/memory/worker_memory.h"

namespace stalltrace::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDying{1000};

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
  limit_worker_memory();
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

}  // namespace stalltrace::launch
