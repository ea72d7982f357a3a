// SPDX-License-Identifier: Apache-2.0
// A dead rank: a signal that it does not survive. The others find out by themselves, as on a real cluster.
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"signal", "9", 1, 31, {}, "that ends it: 9 is SIGKILL, 11 SIGSEGV, 6 SIGABRT"},
};

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  const int signal = static_cast<int>(spec.number("signal"));
  AppliedFault applied;
  for (const int pid : context.node().pids) {
    if (::kill(pid, signal) != 0 && errno != ESRCH) {
      return fail_errno(fmt::format("send signal {} to process {} of {}", signal, pid, context.node().name), errno);
    }
    applied.commands.push_back(fmt::format("kill -{} {}", signal, pid));
  }
  if (applied.commands.empty()) {
    return fail("no process runs on " + context.node().name, "start one there first");
  }
  return applied;
}

}  // namespace

FaultRow dead_rank_row() {
  return {"dead_rank", "a rank's process is killed", "dead_rank:rank=2,signal=9", kParameters, "", apply};
}

}  // namespace stalltrace::lab
