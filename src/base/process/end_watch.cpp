// SPDX-License-Identifier: Apache-2.0
#include "base/process/end_watch.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <system_error>
#include <thread>

#include "base/rights/capabilities.h"

namespace stalltrace {
namespace {

/// In a thread, which needs no rights, and which keep_capabilities() of another thread does not reach. WNOWAIT leaves
/// the child for its owner to reap. If it is reaped first, waitid answers ECHILD, which is an end too; a later child
/// with the same number would only keep this thread alive for as long.
void report_end(pid_t child, const UniqueFd& end) {
  (void)keep_capabilities(0);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  const uint64_t one = 1;
  (void)!::write(end.get(), &one, sizeof one);
}

}  // namespace

Result<EndWatch> EndWatch::start(pid_t child) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (pidfd) {
    return EndWatch(std::make_shared<const UniqueFd>(std::move(pidfd)));
  }
  auto end = std::make_shared<const UniqueFd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!*end) {
    return fail_errno("watch process " + std::to_string(child), errno);
  }
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int refused = 0;
  try {
    std::thread([child, end] { report_end(child, *end); }).detach();
  } catch (const std::system_error& error) {
    refused = error.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (refused != 0) {
    return fail_errno("watch process " + std::to_string(child) + ": start a thread", refused);
  }
  return EndWatch(std::move(end));
}

}  // namespace stalltrace
