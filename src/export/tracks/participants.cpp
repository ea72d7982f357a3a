// SPDX-License-Identifier: Apache-2.0
#include "export/tracks/participants.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "base/text.h"

namespace stalltrace::trace_export {

Result<Participants> Participants::read(EventSource& source) {
  Participants all;
  ST_ASSIGN(all.nodes_, source.nodes());
  std::map<std::string, int> runs;
  for (const Node& node : all.nodes_) {
    const std::string name = node.name.empty() ? fmt::format("node {}", node.node_id) : node.name;
    const int run = ++runs[name];
    all.node_names_[node.node_id] = run == 1 ? name : fmt::format("{} (run {})", name, run);
  }
  ST_ASSIGN(all.processes_, source.processes());
  for (const Process& process : all.processes_) {
    Known& known = all.known_[{process.node_id, process.pid}];
    known.rank = process.rank ? process.rank : known.rank;
  }
  ST_ASSIGN(const std::vector<Communicator> communicators, source.communicators());
  all.take_ranks(communicators);
  ST_ASSIGN(std::vector<Connection> connections, source.connections());
  for (Connection& row : connections) {
    all.connections_[{row.node_id, row.cookie}] = std::move(row);
  }
  return all;
}

/// The rank of a process that no launcher gave one: the one in its largest communicator.
void Participants::take_ranks(const std::vector<Communicator>& communicators) {
  std::set<ProcessKey> given;
  for (const auto& [key, known] : known_) {
    if (known.rank) {
      given.insert(key);
    }
  }
  for (const Communicator& row : communicators) {
    const ProcessKey key{row.node_id, row.pid};
    if (given.contains(key) || !row.rank) {
      continue;
    }
    Known& known = known_[key];
    if (!known.rank || row.nranks.value_or(0) > known.nranks) {
      known.rank = row.rank;
      known.nranks = row.nranks.value_or(0);
    }
  }
}

Status Participants::declare_ranks(const Selection& selection, TrackWriter& writer) {
  selection_ = &selection;
  writer_ = &writer;
  std::vector<std::pair<int32_t, ProcessKey>> ranks;
  std::set<int32_t> recorded;
  for (const auto& [key, known] : known_) {
    if (known.rank) {
      recorded.insert(*known.rank);
      if (selection.has_rank(known.rank)) {
        ranks.emplace_back(*known.rank, key);
      }
    }
  }
  if (ranks.empty() && !selection.all_ranks()) {
    return fail("--rank: none of these ranks is in the recordings",
                recorded.empty() ? "they hold no ranks"
                                 : fmt::format("they hold {} of them, from {} to {}", recorded.size(),
                                               *recorded.begin(), *recorded.rbegin()),
                ErrorKind::kNotFound);
  }
  std::ranges::set_difference(selection.ranks(), recorded, std::back_inserter(absent_ranks_));
  std::ranges::sort(ranks);
  for (const auto& [rank, key] : ranks) {
    process(key.first, key.second);
  }
  return {};
}

bool Participants::selected(const ProcessKey& process) const {
  const auto found = known_.find(process);
  return selection_->has_rank(found == known_.end() ? std::nullopt : found->second.rank);
}

TrackId Participants::declare(const ProcessKey& key, Known& known) {
  const std::string rank = known.rank ? fmt::format("rank {}", *known.rank) : "no rank";
  return writer_->process(fmt::format("{} · {} · pid {}", rank, node_name(key.first), key.second), key.second);
}

TrackId Participants::process(NodeId node_id, int32_t pid) {
  if (pid == 0) {
    return node(node_id);
  }
  const ProcessKey key{node_id, pid};
  auto found = known_.find(key);
  if (found == known_.end()) {
    if (!selection_->all_ranks() || known_.size() >= TrackWriter::kMostTracks) {
      return kNoTrack;
    }
    found = known_.try_emplace(key).first;
  }
  Known& known = found->second;
  if (!known.track) {
    known.track = selection_->has_rank(known.rank) ? declare(key, known) : kNoTrack;
  }
  return *known.track;
}

TrackId Participants::node(NodeId node_id) {
  const auto [found, fresh] = node_tracks_.try_emplace(node_id, kNoTrack);
  if (fresh) {
    const bool wanted = selection_->all_ranks() || std::ranges::any_of(known_, [&](const auto& entry) {
                          return entry.first.first == node_id && selection_->has_rank(entry.second.rank);
                        });
    found->second = wanted ? writer_->process(fmt::format("host of {}", node_name(node_id)), 0) : kNoTrack;
  }
  return found->second;
}

const Connection* Participants::connection(NodeId node, uint64_t cookie) const {
  const auto found = connections_.find({node, cookie});
  return found == connections_.end() ? nullptr : &found->second;
}

std::string Participants::node_name(NodeId node) const {
  const auto found = node_names_.find(node);
  return found == node_names_.end() ? fmt::format("node {}", node) : found->second;
}

std::optional<int32_t> Participants::rank_of(const ProcessKey& process) const {
  const auto found = known_.find(process);
  return found == known_.end() ? std::nullopt : found->second.rank;
}

/// Of the processes of the finding's job attempt, if it has one.
std::optional<ProcessKey> Participants::process_with_rank(std::optional<int32_t> rank, const Finding& finding,
                                                          const Report& report) const {
  if (!rank) {
    return std::nullopt;
  }
  const auto attempt = std::ranges::find_if(
      report.attempts, [&](const JobAttempt& one) { return finding.attempt && one.number == *finding.attempt; });
  if (attempt != report.attempts.end()) {
    const auto found =
        std::ranges::find_if(attempt->processes, [&](const ProcessKey& key) { return rank_of(key) == rank; });
    return found == attempt->processes.end() ? std::nullopt : std::optional<ProcessKey>(*found);
  }
  const auto found = std::ranges::find_if(known_, [&](const auto& entry) { return entry.second.rank == rank; });
  return found == known_.end() ? std::nullopt : std::optional(found->first);
}

std::optional<ProcessKey> Participants::culprit_of(const Finding& finding, const Report& report) const {
  if (finding.culprit) {
    const Culprit& culprit = *finding.culprit;
    const auto found = std::ranges::find_if(known_, [&](const auto& entry) {
      const auto name =
          std::ranges::find_if(nodes_, [&](const Node& node) { return node.node_id == entry.first.first; });
      return culprit.pid != 0 && entry.first.second == culprit.pid && name != nodes_.end() &&
             name->name == culprit.node;
    });
    if (found != known_.end() || culprit.rank || !finding.link) {
      return found != known_.end() ? std::optional(found->first) : process_with_rank(culprit.rank, finding, report);
    }  // a node: the sender of its link
  }
  return finding.link ? process_with_rank(finding.link->src_rank, finding, report) : std::nullopt;
}

}  // namespace stalltrace::trace_export
