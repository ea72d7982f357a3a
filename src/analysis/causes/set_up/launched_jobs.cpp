// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/set_up/launched_jobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <compare>
#include <span>
#include <tuple>
#include <utility>

#include "analysis/causes/set_up/stuck_calls.h"
#include "analysis/evidence/flows.h"
#include "analysis/rank_numbers.h"
#include "analysis/stalls/hangs/job_ends.h"
#include "analysis/thresholds/set_up.h"
#include "base/net/loopback.h"
#include "base/text.h"
#include "model/events/loss_sources.h"
#include "model/evidence_kind.h"

namespace stalltrace::analysis {
namespace {

std::map<std::string, std::string> parse_settings(const std::string& text) {
  std::map<std::string, std::string> settings;
  for (const std::string_view line : split(text, '\n')) {
    if (const size_t equals = line.find('='); equals != std::string_view::npos) {
      settings.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return settings;
}

/// What the ranks of a job have alike. `host` is set where the address leads each host to itself: the default of
/// torchrun, with which the jobs of two hosts differ in nothing else.
struct JobKey {
  std::string job_id;
  std::string program;  // without its folder: each node can have it in another one
  int32_t world_size = 0;
  std::string address;
  std::string port;
  std::optional<size_t> host;

  auto operator<=>(const JobKey&) const = default;
};

/// Ranks with equal values, alive together.
struct Part {
  JobKey key;
  LaunchedJob job;
  bool judged = true;
  Interval starts{kForever, -kForever};
  std::map<int32_t, int64_t> ends_of_ranks;

  /// `is_judged`: it called nothing, started while its node was recorded, and its node lost no call.
  void add(LaunchedRank rank, bool is_judged) {
    judged = judged && is_judged;
    starts = {std::min(starts.from_ns, rank.life.from_ns), std::max(starts.to_ns, rank.life.from_ns)};
    int64_t& end_ns = ends_of_ranks.try_emplace(rank.rank, rank.life.to_ns).first->second;
    end_ns = std::max(end_ns, rank.life.to_ns);
    job.ranks.push_back(std::move(rank));
  }
  /// True for a later process of a rank that has ended: it belongs to the job's next attempt. Children of a living
  /// process don't count.
  [[nodiscard]] bool is_over_for(const LaunchedRank& rank) const {
    const auto end = ends_of_ranks.find(rank.rank);
    return end != ends_of_ranks.end() && end->second <= rank.life.from_ns;
  }
};

/// True if calls of the node's processes may be missing from the recording.
bool lost_calls(const Node& node, const std::vector<Loss>& losses) {
  const std::vector<EvidenceKind> missing = kinds_of_keys(node.missing_evidence);
  return std::ranges::find(missing, EvidenceKind::kCalls) != missing.end() ||
         std::ranges::find(missing, EvidenceKind::kProcessExits) != missing.end() ||
         std::ranges::any_of(losses, [&](const Loss& loss) {
           return loss.node_id == node.node_id && loss.count > 0 && may_lose_calls(loss.source);
         });
}

bool leaves_out_processes(const Loss& loss) { return loss.count > 0 && may_lose_processes(loss.source); }

class Builder {
 public:
  Builder(const Cluster& cluster, const Timeline& timeline, const std::vector<Loss>& losses,
          const std::set<ProcessKey>& called)
      : cluster_(cluster), ends_(ends_of_nodes(cluster)), callers_(called) {
    for (const CallSequence& sequence : timeline.sequences()) {
      if (!sequence.calls.empty()) {
        const Member& member = cluster.member(sequence.member);
        callers_.insert({member.node_id, member.pid});
      }
    }
    for (const Node& node : cluster.nodes()) {
      starts_[node.node_id] = cluster.clock().to_common(node.node_id, node.started_ns);
      if (lost_calls(node, losses)) {
        lossy_.insert(node.node_id);
      }
    }
    processes_left_out_ = std::ranges::any_of(losses, leaves_out_processes);
  }

  std::vector<LaunchedJob> build() {
    for (LaunchedRank& rank : launched()) {
      add(std::move(rank));
    }
    join_parts([](JobKey& key) { key.host.reset(); });
    join_parts([](JobKey& key) { key.address.clear(), key.host.reset(); });
    join_parts([](JobKey& key) { key.port.clear(), key.host.reset(); });
    join_parts([](JobKey& key) { key.world_size = 0, key.host.reset(); });
    std::vector<LaunchedJob> jobs;
    for (Part& part : parts_) {
      if (!part.judged || part.job.ranks.empty()) {
        continue;
      }
      std::ranges::stable_sort(part.job.ranks, {}, [](const LaunchedRank& rank) {
        return std::tuple(rank.rank, rank.life.from_ns, rank.key());
      });
      part.job.world_size = usual_world_size(part.job);
      part.job.processes_left_out = processes_left_out_;
      jobs.push_back(std::move(part.job));
    }
    return jobs;
  }

 private:
  /// Sorted by start.
  std::vector<LaunchedRank> launched() const {
    std::vector<LaunchedRank> ranks;
    for (const Process& process : cluster_.processes()) {
      if (!process.rank || process.rank_source != RankSource::kEnvironment || process.world_size.value_or(0) < 2 ||
          process.start_ns == 0) {
        continue;
      }
      LaunchedRank rank{.process = &process, .rank = *process.rank, .settings = parse_settings(process.settings)};
      const auto end = ends_.find(process.node_id);
      rank.life.from_ns = cluster_.clock().to_common(process.node_id, process.start_ns);
      rank.life.to_ns = process.exit_ns      ? cluster_.clock().to_common(process.node_id, *process.exit_ns)
                        : end == ends_.end() ? kForever
                                             : end->second;
      ranks.push_back(std::move(rank));
    }
    std::ranges::stable_sort(ranks, {}, [](const LaunchedRank& rank) { return rank.life.from_ns; });
    return ranks;
  }

  JobKey key_of(const LaunchedRank& rank) const {
    const Process& process = *rank.process;
    JobKey key{.job_id = process.job_id,
               .program = std::string(base_name(process.exe)),
               .world_size = *process.world_size,
               .address = rank.setting("MASTER_ADDR"),
               .port = rank.setting("MASTER_PORT"),
               .host = std::nullopt};
    if (is_localhost(key.address) || is_loopback(key.address)) {
      key.host = cluster_.clock().host(process.node_id);
    }
    return key;
  }

  void add(LaunchedRank rank) {
    const NodeId node = rank.process->node_id;
    const auto start = starts_.find(node);  // a damaged recording may lack the node
    const bool judged = !callers_.contains(rank.key()) && !lossy_.contains(node) && start != starts_.end() &&
                        rank.life.from_ns >= start->second;
    JobKey key = key_of(rank);
    const auto latest = latest_.find(key);
    if (latest != latest_.end() && !parts_[latest->second].is_over_for(rank)) {
      parts_[latest->second].add(std::move(rank), judged);
      return;
    }
    latest_[key] = parts_.size();
    Part fresh{.key = std::move(key), .job = {}, .ends_of_ranks = {}};
    fresh.job.world_size = *rank.process->world_size;
    fresh.add(std::move(rank), judged);
    parts_.push_back(std::move(fresh));
  }

  /// Joins parts that differ only in what `ignore` clears, that were started together, and that are a whole job only
  /// together: none has all its ranks, and no two have the same rank. A part that was joined is left without ranks.
  template <typename Ignore>
  void join_parts(const Ignore& ignore) {
    std::map<JobKey, std::vector<size_t>> alike;  // by start, since parts_ are
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].job.ranks.empty() && !parts_[i].job.missing().empty()) {
        JobKey key = parts_[i].key;
        ignore(key);
        alike[key].push_back(i);
      }
    }
    for (const auto& [key, indices] : alike) {
      for (size_t first = 0, end = 0; first < indices.size(); first = end) {
        const int64_t start_ns = parts_[indices[first]].starts.from_ns;
        end = first;
        while (end < indices.size() && parts_[indices[end]].starts.from_ns - start_ns <= kStartedTogetherNs) {
          ++end;
        }
        const std::span<const size_t> together(indices.begin() + static_cast<std::ptrdiff_t>(first), end - first);
        if (is_whole(together)) {
          join(together);
        }
      }
    }
  }

  [[nodiscard]] bool is_whole(std::span<const size_t> parts) const {
    std::set<int32_t> present;
    std::set<int32_t> world_sizes;
    size_t ranks = 0;
    for (const size_t part : parts) {
      const std::set<int32_t> more = parts_[part].job.present();
      present.insert(more.begin(), more.end());
      ranks += more.size();
      world_sizes.insert(parts_[part].job.world_size);
    }
    return parts.size() > 1 && ranks == present.size() && *present.begin() == 0 &&
           *present.rbegin() + size_t{1} == present.size() && world_sizes.contains(static_cast<int32_t>(ranks));
  }

  void join(std::span<const size_t> parts) {
    Part& whole = parts_[parts.front()];
    for (const size_t part : parts.subspan(1)) {
      for (LaunchedRank& rank : std::exchange(parts_[part].job.ranks, {})) {
        whole.add(std::move(rank), parts_[part].judged);
      }
    }
  }

  static int32_t usual_world_size(const LaunchedJob& job) {
    std::map<int32_t, size_t> ranks;
    for (const LaunchedRank& rank : job.ranks) {
      ++ranks[*rank.process->world_size];
    }
    return std::ranges::max_element(ranks, {}, [](const auto& entry) { return entry.second; })->first;
  }

  const Cluster& cluster_;
  std::map<NodeId, int64_t> ends_;
  std::map<NodeId, int64_t> starts_;
  std::set<NodeId> lossy_;  // nodes that lost calls
  bool processes_left_out_ = false;
  std::set<ProcessKey> callers_;
  std::vector<Part> parts_;          // by start
  std::map<JobKey, size_t> latest_;  // the latest of parts_
};

}  // namespace

std::string LaunchedRank::setting(const std::string& name) const {
  const auto found = settings.find(name);
  return found == settings.end() ? std::string() : found->second;
}

bool LaunchedRank::failed() const { return failed_by_itself(process->exit_signal, process->exit_code); }

bool LaunchedRank::was_asked_to_end() const {
  return analysis::was_asked_to_end(process->exit_signal, process->exit_code);
}

std::set<int32_t> LaunchedJob::present() const {
  std::set<int32_t> present;
  for (const LaunchedRank& rank : ranks) {
    present.insert(rank.rank);
  }
  return present;
}

MissingRanks LaunchedJob::missing() const { return {present(), world_size}; }

std::vector<LaunchedJob> jobs_in_set_up(const Cluster& cluster, const Timeline& timeline,
                                        const std::vector<Loss>& losses, const std::set<ProcessKey>& called) {
  return Builder(cluster, timeline, losses, called).build();
}

const std::vector<const LaunchedRank*>& Difference::minority() const {
  const auto lowest = [](const auto& ranks) { return ranks.front()->rank; };
  return std::ranges::min_element(
             values, {}, [&](const auto& entry) { return std::tuple(entry.second.size(), -lowest(entry.second)); })
      ->second;
}

std::string Difference::text() const {
  std::vector<std::string> parts;
  for (const auto& [value, ranks] : values) {
    std::vector<int32_t> numbers;
    for (const LaunchedRank* rank : ranks) {
      numbers.push_back(rank->rank);
    }
    parts.push_back(fmt::format("{} on {}", value.empty() ? name + " unset" : fmt::format("{}={}", name, value),
                                ranks_text(std::move(numbers))));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<Difference> differences(const LaunchedJob& job) {
  std::set<std::string> names;
  for (const LaunchedRank& rank : job.ranks) {
    for (const auto& [name, value] : rank.settings) {
      names.insert(name);
    }
  }
  std::vector<Difference> found;
  for (const std::string& name : names) {
    Difference difference{.name = name, .values = {}};
    for (const LaunchedRank& rank : job.ranks) {
      if (!rank.settings.empty()) {  // its variables were not readable, or an older version recorded it
        difference.values[rank.setting(name)].push_back(&rank);
      }
    }
    if (difference.values.size() > 1) {
      found.push_back(std::move(difference));
    }
  }
  return found;
}

}  // namespace stalltrace::analysis
