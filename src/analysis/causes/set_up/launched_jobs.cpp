// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/set_up/launched_jobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "analysis/causes/set_up/stuck_calls.h"
#include "analysis/stalls/hangs/job_ends.h"
#include "analysis/thresholds.h"
#include "base/text.h"
#include "model/evidence_kind.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kRanksListed = 16;

/// Nodes may have the program in different folders.
std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::map<std::string, std::string> parse_settings(const std::string& text) {
  std::map<std::string, std::string> settings;
  for (const std::string_view line : split(text, '\n')) {
    if (const size_t equals = line.find('='); equals != std::string_view::npos) {
      settings.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return settings;
}

/// Ranks with equal values that were alive together.
struct Part {
  LaunchedJob job;
  bool called = false;          // one of them called a collective
  bool before_tracing = false;  // one of them started before the recording
  Interval starts{kForever, -kForever};

  void add(LaunchedRank rank, bool has_called, bool started_before) {
    called = called || has_called;
    before_tracing = before_tracing || started_before;
    starts = {std::min(starts.from_ns, rank.life.from_ns), std::max(starts.to_ns, rank.life.from_ns)};
    job.ranks.push_back(std::move(rank));
  }
  /// True for a later process of a rank that has ended: it belongs to the job's next attempt. Children of a living
  /// process don't count.
  [[nodiscard]] bool is_over_for(const LaunchedRank& rank) const {
    const auto of_rank = [&](const LaunchedRank& other) { return other.rank == rank.rank; };
    return std::ranges::any_of(job.ranks, of_rank) && std::ranges::none_of(job.ranks, [&](const LaunchedRank& other) {
             return of_rank(other) && other.life.to_ns > rank.life.from_ns;
           });
  }
  [[nodiscard]] bool complete() const { return job.absent() == 0; }
};

/// True if calls of the node's processes may be missing from the recording.
bool lost_calls(const Node& node, const std::vector<Loss>& losses) {
  const std::vector<EvidenceKind> missing = kinds_of_keys(node.missing_evidence);
  return std::ranges::find(missing, EvidenceKind::kCalls) != missing.end() ||
         std::ranges::find(missing, EvidenceKind::kProcessExits) != missing.end() ||
         std::ranges::any_of(losses, [&](const Loss& loss) {
           return loss.node_id == node.node_id && loss.count > 0 &&
                  (loss.source.starts_with("pruned:") || loss.source.starts_with("store:") ||
                   loss.source.find("collective") != std::string::npos);
         });
}

bool disjoint(const LaunchedJob& a, const LaunchedJob& b) {
  const std::set<int32_t> present = a.present();
  return std::ranges::none_of(b.ranks, [&](const LaunchedRank& rank) { return present.contains(rank.rank); });
}

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
      if (lost_calls(node, losses)) {
        continue;
      }
      starts_[node.node_id] = cluster.clock().to_common(node.node_id, node.started_ns);
    }
  }

  std::vector<LaunchedJob> build() {
    for (LaunchedRank& rank : launched()) {
      add(std::move(rank));
    }
    std::vector<Part> joined;
    for (Part& part : parts_) {
      if (part.called || part.before_tracing) {
        continue;
      }
      const auto whole = std::ranges::find_if(joined, [&](const Part& other) { return is_one(other, part); });
      if (whole == joined.end()) {
        joined.push_back(std::move(part));
        continue;
      }
      for (LaunchedRank& rank : part.job.ranks) {
        whole->add(std::move(rank), false, false);
      }
      if (part.job.ranks.size() > whole->job.ranks.size() / 2) {
        whole->job.world_size = part.job.world_size;
      }
    }
    std::vector<LaunchedJob> jobs;
    for (Part& part : joined) {
      std::ranges::stable_sort(part.job.ranks, {}, [](const LaunchedRank& rank) {
        return std::tuple(rank.rank, rank.life.from_ns, rank.key());
      });
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
          process.start_ns == 0 || !starts_.contains(process.node_id)) {
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

  void add(LaunchedRank rank) {
    const Process& process = *rank.process;
    const bool called = callers_.contains(rank.key());
    const bool before = rank.life.from_ns < starts_.at(process.node_id);
    const auto values = [](const LaunchedRank& of) {
      return std::tuple(of.process->job_id, base_name(of.process->exe), of.process->world_size,
                        of.setting("MASTER_ADDR"), of.setting("MASTER_PORT"));
    };
    const auto part = std::find_if(parts_.rbegin(), parts_.rend(),
                                   [&](const Part& other) { return values(other.job.ranks.front()) == values(rank); });
    if (part != parts_.rend() && !part->is_over_for(rank)) {
      part->add(std::move(rank), called, before);
      return;
    }
    Part fresh;
    fresh.job.world_size = *process.world_size;
    fresh.add(std::move(rank), called, before);
    parts_.push_back(std::move(fresh));
  }

  /// True if neither has all its ranks but together they do, no rank is in both, they were started together, and only
  /// one variable differs.
  [[nodiscard]] static bool is_one(const Part& a, const Part& b) {
    const LaunchedRank& one = a.job.ranks.front();
    const LaunchedRank& other = b.job.ranks.front();
    const int apart = (one.process->world_size != other.process->world_size ? 1 : 0) +
                      (one.setting("MASTER_ADDR") != other.setting("MASTER_ADDR") ? 1 : 0) +
                      (one.setting("MASTER_PORT") != other.setting("MASTER_PORT") ? 1 : 0);
    const auto together = static_cast<int32_t>(a.job.present().size() + b.job.present().size());
    return one.process->job_id == other.process->job_id &&
           base_name(one.process->exe) == base_name(other.process->exe) && apart == 1 && !a.complete() &&
           !b.complete() && together == std::max(a.job.world_size, b.job.world_size) && disjoint(a.job, b.job) &&
           std::llabs(a.starts.from_ns - b.starts.from_ns) <= kStartedTogetherNs;
  }

  const Cluster& cluster_;
  std::map<NodeId, int64_t> ends_;
  std::map<NodeId, int64_t> starts_;
  std::set<ProcessKey> callers_;
  std::vector<Part> parts_;
};

}  // namespace

std::string LaunchedRank::setting(const std::string& name) const {
  const auto found = settings.find(name);
  return found == settings.end() ? std::string() : found->second;
}

bool LaunchedRank::failed() const { return failed_by_itself(process->exit_signal, process->exit_code); }

std::set<int32_t> LaunchedJob::present() const {
  std::set<int32_t> present;
  for (const LaunchedRank& rank : ranks) {
    present.insert(rank.rank);
  }
  return present;
}

int64_t LaunchedJob::absent() const {
  return world_size - std::ranges::count_if(present(), [&](int32_t rank) { return rank >= 0 && rank < world_size; });
}

std::vector<int32_t> LaunchedJob::missing() const {
  const std::set<int32_t> seen = present();
  std::vector<int32_t> missing;
  for (int32_t rank = 0; rank < world_size && missing.size() <= kRanksListed; ++rank) {
    if (!seen.contains(rank)) {
      missing.push_back(rank);
    }
  }
  return missing;
}

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

std::string ranks_text(std::vector<int32_t> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.size() == 1) {
    return fmt::format("rank {}", ranks[0]);
  }
  if (ranks.size() > 3 && ranks.back() - ranks.front() + 1 == static_cast<int32_t>(ranks.size())) {
    return fmt::format("ranks {} to {}", ranks.front(), ranks.back());
  }
  if (ranks.size() > kRanksListed) {
    ranks.resize(kRanksListed);
    return fmt::format("ranks {}, ...", fmt::join(ranks, ", "));
  }
  const int32_t last = ranks.back();
  ranks.pop_back();
  return fmt::format("ranks {} and {}", fmt::join(ranks, ", "), last);
}

}  // namespace stalltrace::analysis
