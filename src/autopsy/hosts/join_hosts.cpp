// SPDX-License-Identifier: Apache-2.0
#include "autopsy/hosts/join_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "autopsy/judge/thresholds.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::autopsy {
namespace {

constexpr std::ptrdiff_t kAccountsKept = 2;  // of RAS, of a job

int64_t taken_ns(const HostResult& host) { return host.snapshots.back().taken_ns; }

Status check(const std::vector<HostResult>& hosts) {
  std::map<std::string, std::string> files;
  for (const HostResult& host : hosts) {
    const auto [known, fresh] = files.emplace(host.node, host.file);
    if (!fresh) {
      return fail(fmt::format("{} and {}: both are of host {}", known->second, host.file, host.node),
                  "give one file of each host", ErrorKind::kUsage);
    }
  }
  const auto [first, last] = std::ranges::minmax_element(hosts, {}, taken_ns);
  if (const int64_t apart_ns = taken_ns(*last) - taken_ns(*first); apart_ns > kMostApartNs) {
    return fail(fmt::format("{}: taken {} after {}, or the clocks of {} and {} differ by that", last->file,
                            format_duration(apart_ns), first->file, last->node, first->node),
                fmt::format("run stalltrace autopsy on all hosts within {}", format_duration(kMostApartNs)),
                ErrorKind::kUsage);
  }
  return {};
}

/// Of one job name: what its hosts have.
struct JobHosts {
  std::map<int32_t, std::set<std::string>> ranks;  // the hosts of each rank
  std::set<int32_t> world_sizes;
  std::set<std::string> numbered;  // hosts with a rank that has a number
  std::set<std::string> all;
  bool renamed = false;  // it has more than the launcher's name, by which another host's can't be known

  /// Whether these can't be the ranks of one job.
  [[nodiscard]] bool are_several() const {
    return all.size() > 1 && (world_sizes.size() > 1 ||
                              std::ranges::any_of(ranks, [](const auto& rank) { return rank.second.size() > 1; }));
  }
  [[nodiscard]] bool is_apart(const std::string& node) const {
    return all.size() > 1 && (renamed || are_several() || !numbered.contains(node));
  }
};

std::map<std::string, JobHosts> jobs_of(const std::vector<HostResult>& hosts) {
  std::map<std::string, JobHosts> jobs;
  for (const HostResult& host : hosts) {
    for (const Snapshot& snapshot : host.snapshots) {
      for (const RankState& rank : snapshot.ranks) {
        JobHosts& job = jobs[rank.job];
        job.all.insert(host.node);
        job.renamed = job.renamed || rank.launcher_job;
        if (rank.rank) {
          job.ranks[*rank.rank].insert(host.node);
          job.numbered.insert(host.node);
        }
        if (rank.world_size) {
          job.world_sizes.insert(*rank.world_size);
        }
      }
    }
  }
  return jobs;
}

/// Of one launcher's name: the jobs that have it.
struct Namesakes {
  std::set<std::string> jobs;
  std::set<std::string> hosts;
  bool renamed = false;
  bool apart = false;  // not all are one job
};

void note_namesakes(const std::map<std::string, Namesakes>& by_name, JoinedHosts& joined) {
  for (const auto& [name, of_name] : by_name) {
    if (of_name.hosts.size() < 2 || !(of_name.renamed || of_name.apart)) {
      continue;
    }
    joined.context.not_joined.insert(of_name.jobs.begin(), of_name.jobs.end());
    if (of_name.renamed) {
      joined.notes.push_back(fmt::format(
          "{} hosts show ranks of a job {}, and one of them shows several jobs of that name: which ranks of different "
          "hosts belong together is not known, and those of these jobs are not joined",
          of_name.hosts.size(), name.empty() ? "without a name" : name));
    }
  }
}

void separate_jobs(std::vector<HostResult>& hosts, JoinedHosts& joined) {
  const std::map<std::string, JobHosts> jobs = jobs_of(hosts);
  std::map<std::string, Namesakes> by_name;
  const auto name = [&](std::string& job, const std::string& node) {
    const auto found = jobs.find(job);
    if (found != jobs.end() && found->second.is_apart(node)) {
      job += (job.empty() ? "on " : " on ") + node;
    }
  };
  for (HostResult& host : hosts) {
    for (Snapshot& snapshot : host.snapshots) {
      for (RankState& rank : snapshot.ranks) {
        Namesakes& namesakes = by_name[rank.launcher_job.value_or(rank.job)];
        namesakes.renamed = namesakes.renamed || rank.launcher_job;
        namesakes.apart = namesakes.apart || jobs.at(rank.job).is_apart(host.node);
        name(rank.job, host.node);
        namesakes.jobs.insert(rank.job);
        namesakes.hosts.insert(host.node);
      }
    }
    for (RasAccount& account : host.ras) {
      name(account.job, host.node);
    }
  }
  for (const auto& [job, of_job] : jobs) {
    if (of_job.are_several() && !of_job.renamed) {
      joined.notes.push_back(fmt::format(
          "{} hosts show a job {} with ranks that can't be of one job (the same number twice, or another WORLD_SIZE): "
          "each host's are judged alone",
          of_job.all.size(), job.empty() ? "without a name" : job));
    }
  }
  note_namesakes(by_name, joined);
}

/// RAS answers for the whole job, so that every host may have the same: of each job the two newest answers to one host,
/// which were asked one after the other.
std::vector<RasAccount> newest_accounts(std::vector<HostResult>& hosts) {
  std::map<std::string, std::vector<RasAccount>> by_job;
  for (HostResult& host : hosts) {
    std::ranges::stable_sort(host.ras, {}, &RasAccount::asked_ns);
    std::map<std::string, std::vector<RasAccount>> of_host;
    for (RasAccount& account : host.ras) {
      of_host[account.job].push_back(std::move(account));
    }
    for (auto& [job, accounts] : of_host) {
      std::vector<RasAccount>& kept = by_job[job];
      if (kept.empty() || kept.back().asked_ns < accounts.back().asked_ns) {
        const std::ptrdiff_t number = std::min<std::ptrdiff_t>(std::ssize(accounts), kAccountsKept);
        kept.assign(std::make_move_iterator(accounts.end() - number), std::make_move_iterator(accounts.end()));
      }
    }
  }
  std::vector<RasAccount> all;
  for (auto& [job, accounts] : by_job) {
    std::ranges::move(accounts, std::back_inserter(all));
  }
  std::ranges::stable_sort(all, {}, &RasAccount::asked_ns);
  return all;
}

}  // namespace

Result<JoinedHosts> join_hosts(std::vector<HostResult> hosts) {
  ST_TRY(check(hosts));
  JoinedHosts joined;
  separate_jobs(hosts, joined);
  const auto [first, last] = std::ranges::minmax_element(hosts, {}, taken_ns);
  if (const int64_t apart_ns = taken_ns(*last) - taken_ns(*first); apart_ns > kTogetherNs) {
    joined.notes.push_back(fmt::format(
        "{} was looked at {} after {}: what the ranks did in between is not seen, and a hang may have begun only then",
        last->node, format_duration(apart_ns), first->node));
  }
  int64_t shortest_ns = kMostApartNs;
  for (const HostResult& host : hosts) {
    shortest_ns = std::min(shortest_ns, taken_ns(host) - host.snapshots.front().taken_ns);
  }
  joined.snapshots.resize(2);
  joined.snapshots[1].taken_ns = taken_ns(*last);
  joined.snapshots[0].taken_ns = taken_ns(*last) - shortest_ns;
  std::set<std::string> addresses;
  for (HostResult& host : hosts) {
    std::set<std::string> of_host;
    for (size_t i = 0; i < joined.snapshots.size(); ++i) {
      std::ranges::move(host.snapshots[i].ranks, std::back_inserter(joined.snapshots[i].ranks));
      of_host.insert(host.snapshots[i].host_addresses.begin(), host.snapshots[i].host_addresses.end());
    }
    addresses.insert(of_host.begin(), of_host.end());
    joined.context.views.emplace(host.node, HostView{.first_ns = host.snapshots.front().taken_ns,
                                                     .last_ns = taken_ns(host),
                                                     .addresses = {of_host.begin(), of_host.end()}});
    joined.context.traced.emplace(host.node, std::move(host.traced));
    for (const std::string& problem : host.problems) {
      joined.notes.push_back(fmt::format("{}: {}", host.node, problem));
    }
  }
  for (Snapshot& snapshot : joined.snapshots) {
    std::ranges::stable_sort(snapshot.ranks, {}, [](const RankState& rank) { return rank.rank.value_or(INT32_MAX); });
    snapshot.host_addresses.assign(addresses.begin(), addresses.end());
  }
  joined.context.ras = newest_accounts(hosts);
  return joined;
}

}  // namespace stalltrace::autopsy
