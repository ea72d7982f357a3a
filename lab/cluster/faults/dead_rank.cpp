// SPDX-License-Identifier: Apache-2.0
// A dead rank: by a fatal signal, by lack of memory, or by its own program. The others notice it themselves, as on a
// real cluster.
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "lab/cluster/faults/faults.h"
#include "lab/cluster/host/cgroup.h"

namespace stalltrace::lab {
namespace {

constexpr std::array<std::string_view, 4> kHow = {"signal", "memory", "exception", "exit"};
constexpr std::string_view kLeakMegabytes = "16";  // per step
constexpr std::string_view kLimitBytes = "67108864";
constexpr std::array kParameters = {
    FaultParameter{
        "how", "signal", 0, 0, kHow,
        "it ends; memory: its cgroup's limit, with a workload that leaks; exception: of Python; exit: with success"},
    FaultParameter{"signal", "9", 1, 31, {}, "that ends it: 9 is SIGKILL, 11 SIGSEGV, 6 SIGABRT"},
};

/// The kernel kills it for lack of memory: it leaks in each step, in a cgroup with a limit.
Result<AppliedFault> run_out_of_memory(const FaultContext& context) {
  const std::string bytes(kLimitBytes);
  ST_ASSIGN(AppliedFault applied, apply_bug(context.node(), "leak", kLeakMegabytes));
  const CgroupLimit limit = {{{"memory.limit_in_bytes", bytes}}, {{"memory.max", bytes}, {"memory.swap.max", "0"}}};
  if (Status limited =
          limit_processes("memory", context.number, limit, context.node().pids, applied.commands, applied.undo);
      !limited) {
    (void)undo_all(applied.undo);
    return std::unexpected(std::move(limited.error()));
  }
  return applied;
}

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  if (spec.choice("how") == "memory") {
    return run_out_of_memory(context);
  }
  if (spec.choice("how") == "exception" || spec.choice("how") == "exit") {
    return apply_bug(context.node(), "raise", spec.choice("how") == "exit" ? "0" : "exception");
  }
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
