// SPDX-License-Identifier: Apache-2.0
// `stalltrace stacks`: shows the current line or native call of each rank of a running job.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/process/procfs.h"
#include "cli/framework/exit_code.h"
#include "cli/privacy.h"
#include "cli/running_jobs.h"
#include "cli/subcommands/subcommands.h"
#include "stacks/output/stacks_text.h"
#include "stacks/rank_stacks.h"

namespace stalltrace::cli {
namespace {

using stacks::ProcessStacks;
using stacks::RankStacks;

class StacksSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {
        .name = "stacks",
        .summary =
            "where a running job is: the line of Python or the native call of every thread, and what it waits for",
        .example = "sudo stalltrace stacks",
        .details =
            "Reads CPython 3.9 to 3.13 and native frames from outside: nothing is stopped, and nothing is written to\n"
            "the job. Without --pid all ranks on this host are shown: processes that use a collective library, and\n"
            "Python processes that a launcher gave a rank; what they started, such as data loaders, is listed below\n"
            "each. Other users' processes take root or CAP_SYS_PTRACE."};
  }
  std::vector<Flag> flags() override {
    return {pids_flag("--pid", "show this process and its descendants; may be repeated, or given as 12,34", &pids_),
            switch_flag("--json", "print one JSON object, for programs", &json_), privacy_.commands_flag()};
  }

  Result<int> run(Console& console) override {
    const Procfs procfs("/proc", privacy_.commands());
    const std::vector<RunningRank> wanted = pids_.empty() ? running_ranks(procfs) : asked_ranks(procfs, pids_);
    if (wanted.empty()) {
      return fail("no job runs on this host: no process uses a collective library, and no Python process has a rank",
                  "name a process with --pid; as root other users' jobs are seen too", ErrorKind::kNotFound);
    }
    std::vector<RankStacks> ranks = read(procfs, wanted);
    // For a single requested process its problem is the answer.
    for (RankStacks& one : ranks) {
      if (!pids_.empty() && !one.stacks) {
        return std::unexpected(one.stacks.error());
      }
      const bool shows_nothing = !pids_.empty() && one.stacks->no_python && !has_frames(*one.stacks);
      if (shows_nothing && !has_python(one.children)) {
        return std::unexpected(*one.stacks->no_python);
      }
    }
    console.out(json_ ? stacks::stacks_json(ranks).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                      : stacks::stacks_text(ranks));
    return kExitDone;
  }

 private:
  static bool has_frames(const ProcessStacks& process) {
    return std::ranges::any_of(process.threads, [](const stacks::ThreadStack& thread) {
      return thread.native && !thread.native->frames.empty();
    });
  }

  static bool has_python(const std::vector<RankStacks>& processes) {
    return std::ranges::any_of(processes, [](const RankStacks& one) { return one.stacks && one.stacks->python; });
  }

  static std::vector<RankStacks> read(const Procfs& procfs, const std::vector<RunningRank>& wanted) {
    std::vector<pid_t> pids;
    for (const RunningRank& rank : wanted) {
      pids.push_back(rank.pid);
      pids.insert(pids.end(), rank.descendants.begin(), rank.descendants.end());
    }
    std::vector<Result<ProcessStacks>> results = stacks::read_processes(procfs, pids, {.native = true});
    std::vector<RankStacks> ranks;
    size_t next = 0;
    for (const RunningRank& rank : wanted) {
      RankStacks& one = ranks.emplace_back(
          RankStacks{.pid = rank.pid, .rank = rank.rank, .job = rank.job, .stacks = std::move(results[next++])});
      for (const pid_t child : rank.descendants) {
        Result<ProcessStacks>& result = results[next++];
        if (result || result.error().kind != ErrorKind::kNotFound) {  // a descendant that has ended is left out
          one.children.push_back(RankStacks{.pid = child, .stacks = std::move(result)});
        }
      }
    }
    return ranks;
  }

  std::vector<int32_t> pids_;
  bool json_ = false;
  Privacy privacy_;
};

}  // namespace

std::unique_ptr<Subcommand> make_stacks_subcommand() { return std::make_unique<StacksSubcommand>(); }

}  // namespace stalltrace::cli
