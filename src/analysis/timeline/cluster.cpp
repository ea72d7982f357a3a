// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kThreadNameBytes = 15;  // length of a thread name in the kernel

/// Threads of the job's libraries, the kernel's work for them, and this tracer.
constexpr std::array<std::string_view, 9> kOwnNames{"NCCL ",      "stalltrace", "ksoftirqd/", "kworker/", "swapper/",
                                                    "migration/", "rcu_",       "cuda",       "irq/"};

}  // namespace

bool Member::ended_badly() const {
  return exit_signal ? *exit_signal != SIGINT && *exit_signal != SIGTERM && *exit_signal != SIGHUP
                     : exit_code.value_or(0) != 0;
}

std::string Member::how_it_ended(std::string_view by_itself) const {
  if (oom_killed) {
    return "was killed by the kernel (out of memory)";
  }
  if (exit_signal) {
    const char* name = ::sigabbrev_np(*exit_signal);
    return fmt::format("was ended by signal {}{}", *exit_signal, name == nullptr ? "" : fmt::format(" (SIG{})", name));
  }
  return exit_code ? fmt::format("ended{} with exit code {}", by_itself, *exit_code) : "ended";
}

Result<Cluster> Cluster::load(EventSource& source) {
  Cluster cluster;
  ST_ASSIGN(cluster.nodes_, source.nodes());
  cluster.clock_ = Clock::of(cluster.nodes_);
  if (cluster.clock_.hosts() > 1) {
    ST_ASSIGN(cluster.kernel_clocks_, load_kernel_clocks(source, cluster.clock_));
  }
  for (size_t i = 0; i < cluster.nodes_.size(); ++i) {
    cluster.node_index_.try_emplace(cluster.nodes_[i].node_id, i);
  }
  ST_ASSIGN(cluster.processes_, source.processes());
  ST_ASSIGN(cluster.communicators_, source.communicators());
  ST_ASSIGN(std::vector<Competitor> competitors, source.competitors());
  for (size_t i = 0; i < cluster.processes_.size(); ++i) {
    cluster.process_index_[key_of(cluster.processes_[i].node_id, cluster.processes_[i].pid)] = i;
  }
  std::ranges::stable_sort(competitors, {}, &Competitor::start_ns);
  for (Competitor& row : competitors) {
    cluster.competitors_[key_of(row.node_id, row.pid)].push_back(std::move(row));
  }
  for (size_t i = 0; i < cluster.communicators_.size(); ++i) {
    const Communicator& row = cluster.communicators_[i];
    cluster.communicator_index_[{row.node_id, row.pid, row.comm_ptr}].push_back(i);
  }
  cluster.derive_split_ranks();
  for (const Communicator& row : cluster.communicators_) {
    cluster.join(row.node_id, row.pid);
  }
  cluster.take_ranks_from_communicators();
  return cluster;
}

void Cluster::align(const OffsetBounds& bounds) {
  const Clock before = clock_;
  clock_.align(nodes_, bounds);
  for (Member& member : members_) {
    for (std::optional<int64_t>* time_ns : {&member.start_ns, &member.exit_ns}) {
      if (*time_ns) {
        *time_ns = clock_.to_common(member.node_id, before.from_common(member.node_id, **time_ns));
      }
    }
  }
}

void Cluster::set_attempts(const std::vector<AttemptIndex>& attempts) {
  for (size_t i = 0; i < attempts.size(); ++i) {
    members_[i].attempt = attempts[i];
    attempts_ = std::max<size_t>(attempts_, attempts[i] + size_t{1});
  }
}

/// A child of ncclCommSplit orders its members by key, then by rank in the parent.
void Cluster::derive_split_ranks() {
  std::map<CommHash, std::vector<size_t>> children;
  for (size_t i = 0; i < communicators_.size(); ++i) {
    if (communicators_[i].parent_hash != 0 && communicators_[i].comm_id_hash != 0) {
      children[communicators_[i].comm_id_hash].push_back(i);
    }
  }
  using ParentKey = std::tuple<NodeId, int32_t, CommHash>;
  std::map<ParentKey, int32_t> parents;  // the rank in each first row
  for (const Communicator& row : communicators_) {
    if (!children.empty()) {
      parents.try_emplace({row.node_id, row.pid, row.comm_id_hash}, row.rank.value_or(0));
    }
  }
  for (auto& entry : children) {
    std::vector<size_t>& rows = entry.second;
    const bool complete = std::all_of(rows.begin(), rows.end(), [&](size_t row) {
      return !communicators_[row].nranks || static_cast<size_t>(*communicators_[row].nranks) == rows.size();
    });
    const bool needed =
        std::any_of(rows.begin(), rows.end(), [&](size_t row) { return !communicators_[row].rank.has_value(); });
    if (!complete || !needed) {
      continue;
    }
    const auto parent_rank = [&](size_t row) {
      const Communicator& child = communicators_[row];
      const auto parent = parents.find({child.node_id, child.pid, child.parent_hash});
      return parent == parents.end() ? 0 : parent->second;
    };
    std::sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
      return std::tuple(communicators_[a].split_key.value_or(0), parent_rank(a)) <
             std::tuple(communicators_[b].split_key.value_or(0), parent_rank(b));
    });
    for (size_t i = 0; i < rows.size(); ++i) {
      communicators_[rows[i]].rank = static_cast<int32_t>(i);
      communicators_[rows[i]].nranks = static_cast<int32_t>(rows.size());
      communicators_[rows[i]].rank_source = RankSource::kDerived;
      const Communicator& known = communicators_[rows[i]];
      if (const auto first = parents.find({known.node_id, known.pid, known.comm_id_hash}); first != parents.end()) {
        first->second = known.rank.value_or(0);  // a child may itself be a parent
      }
    }
  }
}

/// Without a rank in the environment, the job rank is the rank in the process's largest communicator.
void Cluster::take_ranks_from_communicators() {
  struct Largest {
    int32_t nranks = 0;
    std::optional<int32_t> rank;
  };
  std::map<std::pair<NodeId, int32_t>, Largest> of_process;
  for (const Communicator& row : communicators_) {
    if (row.rank && row.nranks.value_or(0) > 0) {
      Largest& largest = of_process[{row.node_id, row.pid}];
      if (*row.nranks > largest.nranks) {
        largest = {*row.nranks, row.rank};
      }
    }
  }
  for (Member& member : members_) {
    const auto found = of_process.find({member.node_id, member.pid});
    if (!member.rank && found != of_process.end()) {
      member.rank = found->second.rank;
    }
  }
}

MemberIndex Cluster::join(NodeId node, int32_t pid) {
  if (const MemberIndex known = find(node, pid); known != kNoMember) {
    return known;
  }
  if (members_.size() >= kNoMember) {
    return kNoMember;
  }
  Member member{.node_id = node, .node = node_name(node), .pid = pid};
  if (const auto found = process_index_.find(key_of(node, pid)); found != process_index_.end()) {
    const Process& process = processes_[found->second];
    member.rank = process.rank;
    member.rank_from_launcher = process.rank_source == RankSource::kEnvironment;
    member.world_size = process.world_size;
    member.job_id = process.job_id;
    member.program = base_name(process.exe);
    member.exit_ns = process.exit_ns;
    member.exit_code = process.exit_code;
    member.exit_signal = process.exit_signal;
    member.oom_killed = process.oom_killed;
    if (process.start_ns != 0) {
      member.start_ns = clock_.to_common(node, process.start_ns);
    }
    if (member.exit_ns) {
      member.exit_ns = clock_.to_common(node, *member.exit_ns);
    }
  }
  if (!member.program.empty()) {
    thread_names_.insert(member.program.substr(0, kThreadNameBytes));
  }
  members_.push_back(std::move(member));
  return index_[key_of(node, pid)] = static_cast<MemberIndex>(members_.size() - 1);
}

void Cluster::reorder_members(MemberIndex first, const std::vector<MemberIndex>& order) {
  std::vector<Member> members(members_.begin(), members_.begin() + first);
  members.reserve(members_.size());
  for (const MemberIndex old : order) {
    index_[key_of(members_[old].node_id, members_[old].pid)] = static_cast<MemberIndex>(members.size());
    members.push_back(std::move(members_[old]));
  }
  members_ = std::move(members);
}

MemberIndex Cluster::find(NodeId node, int32_t pid) const {
  const auto found = index_.find(key_of(node, pid));
  return found == index_.end() ? kNoMember : found->second;
}

const Communicator* Cluster::communicator(NodeId node, int32_t pid, uint64_t comm_ptr, CommHash hash) const {
  const auto found = communicator_index_.find({node, pid, comm_ptr});
  if (found == communicator_index_.end()) {
    return nullptr;
  }
  for (auto row = found->second.rbegin(); row != found->second.rend(); ++row) {
    if (communicators_[*row].comm_id_hash == hash) {
      return &communicators_[*row];
    }
  }
  return nullptr;
}

bool Cluster::destroyed(NodeId node, int32_t pid, uint64_t comm_ptr, CommHash hash) const {
  const Communicator* row = communicator(node, pid, comm_ptr, hash);
  return row != nullptr && row->destroyed_ns.has_value();
}

const Competitor* Cluster::competitor(NodeId node, int32_t pid, TimeRange time) const {
  const auto found = competitors_.find(key_of(node, pid));
  if (found == competitors_.end()) {
    return nullptr;
  }
  const Competitor* only = nullptr;
  const std::vector<Competitor>& all = found->second;
  for (size_t i = 0; i < all.size() && clock_.to_common(node, all[i].start_ns) < time.to_ns; ++i) {
    // Its end may not be seen, or seen late: the number's next process began after it.
    const int64_t end_ns =
        std::min(all[i].exit_ns.value_or(kForever), i + 1 < all.size() ? all[i + 1].start_ns : kForever);
    if (end_ns != kForever && clock_.to_common(node, end_ns) < time.from_ns) {
      continue;
    }
    if (only != nullptr) {
      return nullptr;
    }
    only = &all[i];
  }
  return only;
}

bool Cluster::belongs(NodeId node, int32_t pid, const std::string& name) const {
  const uint64_t key = key_of(node, pid);
  const auto competitor = competitors_.find(key);
  return process_index_.contains(key) || index_.contains(key) || threads_.contains(key) ||
         (competitor != competitors_.end() &&
          std::ranges::any_of(competitor->second, [](const Competitor& row) { return row.rank_pid != 0; })) ||
         thread_names_.contains(name) ||
         std::any_of(kOwnNames.begin(), kOwnNames.end(), [&](std::string_view own) { return name.starts_with(own); });
}

std::string Cluster::node_name(NodeId node) const {
  const auto found = node_index_.find(node);
  if (found == node_index_.end()) {
    return fmt::format("node {}", node);
  }
  const Node& row = nodes_[found->second];
  return row.name.empty() ? row.hostname : row.name;
}

std::string Cluster::describe(MemberIndex index) const {
  const Member& member = members_[index];
  return member.rank ? fmt::format("rank {} ({}, pid {})", *member.rank, member.node, member.pid)
                     : fmt::format("pid {} on {} (rank unknown)", member.pid, member.node);
}

}  // namespace stalltrace::analysis
