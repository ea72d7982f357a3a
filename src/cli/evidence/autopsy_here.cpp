// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/autopsy_here.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "autopsy/host/take_snapshot.h"
#include "autopsy/host/watch_calls.h"
#include "autopsy/judge/judge.h"
#include "base/clock.h"
#include "base/text.h"
#include "capture/discover/identity.h"
#include "cli/evidence/job_ras.h"
#include "cli/framework/confined_reading.h"
#include "cli/running_jobs.h"

namespace stalltrace::cli {
namespace {

using autopsy::JobVerdict;
using autopsy::Snapshot;

std::vector<RunningRank> ranks_of(const Procfs& procfs, const std::vector<pid_t>& pids) {
  std::vector<RunningRank> ranks = running_ranks(procfs);
  if (pids.empty()) {
    return ranks;
  }
  std::vector<RunningRank> chosen;
  for (const pid_t pid : pids) {
    const std::vector<pid_t> below = descendants_of(procfs, pid);
    const auto of_pid = [&](const RunningRank& rank) {
      return rank.pid == pid || std::ranges::find(below, rank.pid) != below.end();
    };
    const size_t before = chosen.size();
    std::ranges::copy_if(ranks, std::back_inserter(chosen), of_pid);
    std::erase_if(ranks, of_pid);
    if (chosen.size() == before) {
      std::ranges::copy(asked_ranks(procfs, std::span(&pid, 1)), std::back_inserter(chosen));
    }
  }
  return chosen;
}

std::vector<Snapshot> take_snapshots(const AutopsyOptions& options, const Procfs& procfs,
                                     const std::vector<RunningRank>& ranks, const std::string& node,
                                     autopsy::Traced& traced, Console& console) {
  std::vector<autopsy::RankToRead> to_read;
  for (const RunningRank& rank : ranks) {
    to_read.push_back({node, rank.pid, rank.rank, rank.job, rank.launcher_job});
  }
  std::vector<Snapshot> snapshots;
  snapshots.push_back(autopsy::take_snapshot(procfs, to_read));
  if (console.shows_progress()) {
    console.live(fmt::format("{} on this host; the second snapshot is taken in {} s",
                             count_of(static_cast<int64_t>(ranks.size()), "rank"), options.seconds));
  }
  const int64_t watched_ns = options.seconds * kNsPerSecond;
  traced = options.trace ? autopsy::watch_calls(to_read, watched_ns) : autopsy::watch_nothing(watched_ns);
  if (console.shows_progress()) {
    console.live("");
  }
  snapshots.push_back(autopsy::take_snapshot(procfs, to_read, &snapshots.front()));
  return snapshots;
}

}  // namespace

Result<std::optional<AutopsyResult>> look_at_this_host(const AutopsyOptions& options, Console& console) {
  const Procfs procfs("/proc", options.commands);
  for (const pid_t pid : options.pids) {
    if (!procfs.exists(pid)) {
      return fail(fmt::format("there is no process {}", pid), "list the host's processes with ps -e",
                  ErrorKind::kNotFound);
    }
  }
  const std::vector<RunningRank> ranks = ranks_of(procfs, options.pids);
  if (ranks.empty()) {
    return std::nullopt;
  }
  const std::string node = capture::node_name("");
  AutopsyResult result;
  result.context.utc_offset_ns = measure_utc_offset_ns();
  result.snapshots = take_snapshots(options, procfs, ranks, node, result.context.traced[node], console);
  std::vector<JobRas> ras =
      options.ras ? ask_ras_of_jobs(procfs, result.snapshots.back(), options.ras_ns, console) : std::vector<JobRas>();
  if (std::ranges::any_of(ras, [](const JobRas& one) { return !one.answers.empty(); })) {
    confine_to_reading({}, options.out);  // what follows reads what a user's job answered
    result.context.ras = read_ras_answers(ras);
  }
  result.verdicts = autopsy::judge(result.snapshots, result.context);
  for (const JobRas& one : ras) {
    const auto of_job = std::ranges::find(result.verdicts, one.job, &JobVerdict::job);
    if (!one.problem.empty()) {
      result.ras_problems.push_back(one.problem);
    }
    if (!one.problem.empty() && of_job != result.verdicts.end()) {
      of_job->notes.push_back(one.problem);
    }
  }
  return result;
}

}  // namespace stalltrace::cli
