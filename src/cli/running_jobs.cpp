// SPDX-License-Identifier: Apache-2.0
#include "cli/running_jobs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "capture/discover/elf_symbols.h"
#include "stacks/python/find_python.h"

namespace stalltrace::cli {
namespace {

using Children = std::multimap<pid_t, pid_t>;  // by parent

std::vector<pid_t> descend(const Children& children, pid_t pid) {
  std::vector<pid_t> found;
  std::set<pid_t> seen{pid};
  std::vector<pid_t> open{pid};
  for (size_t i = 0; i < open.size(); ++i) {
    const auto [first, last] = children.equal_range(open[i]);
    for (auto child = first; child != last; ++child) {
      if (seen.insert(child->second).second) {
        open.push_back(child->second);
        found.push_back(child->second);
      }
    }
  }
  return found;
}

bool same_identity(const capture::JobIdentity& a, const capture::JobIdentity& b) {
  return a.rank == b.rank && a.local_rank == b.local_rank && a.world_size == b.world_size && a.job_id == b.job_id;
}

/// Detects mapped files that define calls of a collective library; each file is read once.
class CollectiveFiles {
 public:
  bool mapped_by(const Procfs& procfs, pid_t pid) {
    const auto mappings = procfs.executable_mappings(pid);
    return mappings &&
           std::ranges::any_of(*mappings, [&](const MappedFile& file) { return is_one(procfs, pid, file); });
  }

 private:
  bool is_one(const Procfs& procfs, pid_t pid, const MappedFile& file) {
    const auto [known, fresh] = known_.try_emplace({file.device_major, file.device_minor, file.inode}, false);
    if (fresh) {
      // A path may by now lead to another file, a FIFO or a device: only the mapped file itself is read.
      if (const UniqueFd fd = procfs.open_mapped(pid, file)) {
        const auto symbols = capture::find_probe_points(fd.get());
        known->second = symbols && symbols->has_collectives;
      }
    }
    return known->second;
  }

  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, bool> known_;
};

/// Launchers give all jobs of a host one id ("none", ""): if a rank number occurs twice with one id, the ranks of each
/// parent process are a job.
void separate_jobs(std::vector<RunningRank>& ranks, const std::map<pid_t, const RunningProcess*>& by_pid) {
  std::map<std::string, std::multiset<int32_t>> numbers;
  for (const RunningRank& rank : ranks) {
    numbers[rank.job].insert(rank.rank.value_or(-1));
  }
  for (RunningRank& rank : ranks) {
    const std::multiset<int32_t>& of_job = numbers.at(rank.job);
    const bool twice =
        std::ranges::any_of(of_job, [&](int32_t number) { return number >= 0 && of_job.count(number) > 1; });
    if (twice) {
      rank.launcher_job = rank.job;
      rank.job += fmt::format(" of pid {}", by_pid.at(rank.pid)->parent);
    }
  }
}

}  // namespace

std::vector<RunningRank> find_ranks(std::span<const RunningProcess> processes) {
  Children children;
  std::map<pid_t, const RunningProcess*> by_pid;
  for (const RunningProcess& process : processes) {
    children.emplace(process.parent, process.pid);
    by_pid[process.pid] = &process;
  }
  const auto counts = [](const RunningProcess& process) {
    return process.collective_library || (process.identity.rank && process.python);
  };
  const auto is_below_its_like = [&](const RunningProcess& process) {
    std::set<pid_t> seen;
    for (auto above = by_pid.find(process.parent); above != by_pid.end() && seen.insert(above->first).second;
         above = by_pid.find(above->second->parent)) {
      if (counts(*above->second) && same_identity(above->second->identity, process.identity)) {
        return true;
      }
    }
    return false;
  };
  std::vector<RunningRank> ranks;
  for (const RunningProcess& process : processes) {
    if (counts(process) && !is_below_its_like(process)) {
      ranks.push_back({.pid = process.pid,
                       .rank = process.identity.rank,
                       .job = process.identity.job_id,
                       .descendants = descend(children, process.pid)});
    }
  }
  // Launchers are left out: another rank descends from them.
  std::set<pid_t> known;
  for (const RunningRank& rank : ranks) {
    known.insert(rank.pid);
  }
  std::erase_if(ranks, [&](const RunningRank& rank) {
    return std::ranges::any_of(rank.descendants, [&](pid_t pid) { return known.contains(pid); });
  });
  separate_jobs(ranks, by_pid);
  std::ranges::stable_sort(ranks, {}, [](const RunningRank& rank) {
    return std::tuple(!rank.rank.has_value(), rank.job, rank.rank.value_or(0), rank.pid);
  });
  return ranks;
}

std::vector<RunningRank> running_ranks(const Procfs& procfs) {
  CollectiveFiles files;
  std::vector<RunningProcess> processes;
  for (const pid_t pid : procfs.pids()) {
    if (pid == ::getpid()) {
      continue;
    }
    RunningProcess process{.pid = pid, .parent = procfs.parent(pid)};
    if (const auto environment = procfs.environment(pid)) {
      process.identity = capture::job_identity(*environment);
    }
    // For a Python process with a rank the libraries are not read, because that takes long.
    process.python = process.identity.rank && stacks::may_be_python(procfs, pid);
    process.collective_library = !process.python && files.mapped_by(procfs, pid);
    processes.push_back(std::move(process));
  }
  return find_ranks(processes);
}

std::vector<RunningRank> asked_ranks(const Procfs& procfs, std::span<const pid_t> pids) {
  std::vector<RunningRank> ranks;
  for (const pid_t pid : pids) {
    const auto environment = procfs.environment(pid);
    const capture::JobIdentity identity = environment ? capture::job_identity(*environment) : capture::JobIdentity();
    ranks.push_back(
        {.pid = pid, .rank = identity.rank, .job = identity.job_id, .descendants = descendants_of(procfs, pid)});
  }
  return ranks;
}

std::vector<pid_t> descendants_of(const Procfs& procfs, pid_t pid) {
  Children children;
  for (const pid_t one : procfs.pids()) {
    children.emplace(procfs.parent(one), one);
  }
  return descend(children, pid);
}

}  // namespace stalltrace::cli
