// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/preflight/collectives_program.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include "base/process/subprocess.h"
#include "base/rights/secure_mode.h"
#include "plugin/embedded/collectives_program.h"

namespace stalltrace::cli {
namespace {

constexpr int kItsSocket = 3;
static_assert(kItsSocket < kFirstDescriptor);

}  // namespace

Result<preflight::CollectivesHelper> start_collectives_program(const preflight::CollectiveLimits& limits) {
  if (in_secure_mode()) {
    return fail(
        "--collectives is refused: this program was given rights that its user lacks, and it would run a library "
        "of that user's choice",
        "use a copy of it without file capabilities and without the set-user-ID bit");
  }
  ST_ASSIGN(const UniqueFd program, open_collectives_program());
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail_errno("make a pair of sockets", errno);
  }
  UniqueFd ours(ends[0]);
  const UniqueFd its(ends[1]);
  auto started = Subprocess::spawn({.argv = {fmt::format("/proc/self/fd/{}", program.get())},
                                    .inherited_fds = {{STDERR_FILENO, STDOUT_FILENO}, {its.get(), kItsSocket}},
                                    .parent_death_signal = SIGKILL});
  if (!started) {
    return with_context("start the program that makes collectives", started.error());
  }
  // It is not waited for: after the tests' rights are given up it could not be ended from here either. It ends when its
  // socket is closed, or with this process.
  const pid_t pid = started->detach();
  return preflight::CollectivesHelper(std::move(ours), pid, limits.library, limits.max_bytes);
}

}  // namespace stalltrace::cli
