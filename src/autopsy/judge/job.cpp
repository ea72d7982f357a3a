// SPDX-License-Identifier: Apache-2.0
#include "autopsy/judge/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "autopsy/judge/thresholds.h"
#include "base/clock.h"
#include "base/net/loopback.h"
#include "base/text.h"

namespace stalltrace::autopsy {
namespace {

constexpr size_t kNamed = 8;

}  // namespace

Job::Job(Snapshot first, Snapshot last, const Context& context)
    : first_(std::move(first)), last_(std::move(last)), context_(context) {
  const auto same = [](const RankState& a, const RankState& b) {
    return a.pid == b.pid && a.start_ticks == b.start_ticks;
  };
  for (const RankState& rank : last_.ranks) {
    const auto found = std::ranges::find_if(first_.ranks, [&](const RankState& other) { return same(rank, other); });
    before_.push_back(found == first_.ranks.end() ? nullptr : &*found);
  }
  for (const RankState& rank : first_.ranks) {
    if (std::ranges::none_of(last_.ranks, [&](const RankState& other) { return same(rank, other); })) {
      ended_.push_back(rank);
    }
  }
  connections_ = rank_connections(last_);
  outside_ = outside_connections(last_);
}

const TcpSocket* Job::before(size_t rank, const TcpSocket& socket) const {
  if (before_[rank] == nullptr) {
    return nullptr;
  }
  const auto& sockets = before_[rank]->sockets;
  const auto found = std::ranges::find_if(sockets, [&](const TcpSocket& other) { return other.same_socket(socket); });
  return found == sockets.end() ? nullptr : &*found;
}

std::optional<int64_t> Job::silent_ns() const {
  const auto carried = [](const RankConnection& connection) {
    return connection.socket->acked + connection.socket->received;
  };
  uint64_t most = 0;
  for (const RankConnection& connection : connections_) {
    most = std::max(most, carried(connection));
  }
  std::optional<int64_t> shortest_ms;
  for (const RankConnection& connection : connections_) {
    if (connection.socket->silent_ms && carried(connection) >= most / kBulkShare) {
      shortest_ms = std::min(shortest_ms.value_or(INT64_MAX), *connection.socket->silent_ms);
    }
  }
  return shortest_ms ? std::optional(*shortest_ms * kNsPerMs) : std::nullopt;
}

bool Job::waits(size_t rank) const {
  const RankState& now = ranks()[rank];
  return !stopped(rank) && now.call && before_[rank] != nullptr && before_[rank]->call == now.call &&
         (now.call->witness == Witness::kNative || before_[rank]->location == now.location);
}

bool Job::is_outside(size_t rank) const {
  const RankState& now = ranks()[rank];
  const RankState* before = before_[rank];
  return !stopped(rank) && now.call_known && !now.call && before != nullptr && before->call_known && !before->call;
}

std::string Job::short_name(size_t rank) const {
  const RankState& state = ranks()[rank];
  return state.rank ? fmt::format("rank {}", *state.rank) : fmt::format("pid {}", state.pid);
}

std::string Job::name(size_t rank) const {
  const RankState& state = ranks()[rank];
  return state.rank ? fmt::format("rank {} ({}, pid {})", *state.rank, context_.node, state.pid)
                    : fmt::format("pid {} on {}", state.pid, context_.node);
}

std::string Job::names(std::span<const size_t> ranks) const {
  if (ranks.size() == 1) {
    return short_name(ranks.front());
  }
  std::vector<std::string> numbers;
  bool all_ranks = true;
  for (const size_t rank : ranks) {
    const RankState& state = last_.ranks[rank];
    all_ranks = all_ranks && state.rank;
    if (numbers.size() < kNamed) {
      numbers.push_back(fmt::format("{}", state.rank ? *state.rank : state.pid));
    }
  }
  return fmt::format("{} {}{}", all_ranks ? "ranks" : "processes", fmt::join(numbers, ", "),
                     ranks.size() > numbers.size() ? fmt::format(" and {} more", ranks.size() - numbers.size()) : "");
}

std::string Job::where(std::span<const size_t> ranks) const {
  std::vector<std::pair<std::string, std::vector<size_t>>> locations;
  for (const size_t rank : ranks) {
    const RankState& state = last_.ranks[rank];
    const std::string location = state.call ? "in " + call_text(state) : doing(rank);
    const auto found = std::ranges::find(locations, location, &std::pair<std::string, std::vector<size_t>>::first);
    if (found == locations.end()) {
      locations.push_back({location, {rank}});
    } else {
      found->second.push_back(rank);
    }
  }
  std::vector<std::string> parts;
  for (const auto& [location, ranks_there] : locations) {
    parts.push_back(names(ranks_there) + " " + location);
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string Job::doing(size_t rank) const {
  const RankState& state = ranks()[rank];
  if (!state.problem.empty()) {
    return "not readable";
  }
  return state.call_site ? fmt::format("{}, {}", state.location, state.activity) : state.activity;
}

Culprit Job::culprit(size_t rank) const { return {context_.node, ranks()[rank].rank, ranks()[rank].pid}; }

int32_t Job::world_size() const {
  int32_t size = 0;
  for (const Snapshot* snapshot : {&first_, &last_}) {
    for (const RankState& rank : snapshot->ranks) {
      size = std::max(size, rank.world_size.value_or(0));
    }
  }
  return size;
}

std::vector<int32_t> Job::absent() const {
  std::set<int32_t> here;
  for (const Snapshot* snapshot : {&first_, &last_}) {
    for (const RankState& rank : snapshot->ranks) {
      if (rank.rank) {
        here.insert(*rank.rank);
      }
    }
  }
  std::vector<int32_t> absent;
  for (int32_t rank = 0; !here.empty() && rank < world_size(); ++rank) {
    if (!here.contains(rank)) {
      absent.push_back(rank);
    }
  }
  return absent;
}

Finding Job::finding(Cause cause, Severity severity, double confidence) const {
  Finding finding{.cause = cause, .severity = severity, .confidence = confidence};
  const int64_t now_ns = last_.taken_ns + context_.utc_offset_ns;
  finding.window = {now_ns - hung_ns(), now_ns};
  finding.stall_ms = static_cast<double>(hung_ns()) / static_cast<double>(kNsPerMs);
  for (size_t i = 0; i < ranks().size(); ++i) {
    if (waits(i) && ranks()[i].call->op) {
      finding.op = *ranks()[i].call->op;
      finding.collectives_affected = 1;
      break;
    }
  }
  return finding;
}

std::string call_text(const RankState& rank) {
  if (!rank.call_site) {
    return rank.call->name;
  }
  const auto& [function, line] = *rank.call_site;
  return fmt::format("{} at {}{}", function, line,
                     function == rank.call->name ? "" : fmt::format(" ({})", rank.call->name));
}

std::string waited_text(const Job& job) {
  return job.silent_ns() ? fmt::format("for at least {}", format_duration(job.hung_ns()))
                         : fmt::format("for all of the {} that were watched", format_duration(job.watched_ns()));
}

std::vector<size_t> waiting_ranks(const Job& job) {
  std::vector<size_t> ranks;
  for (size_t i = 0; i < job.ranks().size(); ++i) {
    if (job.waits(i)) {
      ranks.push_back(i);
    }
  }
  return ranks;
}

void add_waiting(const Job& job, Finding& finding) {
  const std::vector<size_t> ranks = waiting_ranks(job);
  finding.evidence.push_back({"stack",
                              static_cast<int64_t>(ranks.size()),
                              ranks.empty() ? "no other rank here was seen to wait in a call" : job.where(ranks),
                              {}});
}

std::vector<std::string> foreign_addresses(const Job& job) {
  std::set<std::string> addresses;
  for (const OutsideConnection& connection : job.outside()) {
    const std::string& address = connection.socket->remote.address;
    const bool ours = std::ranges::find(job.last().host_addresses, address) != job.last().host_addresses.end();
    if (!ours && !is_loopback(address) && connection.socket->state != TcpState::kCloseWait) {
      addresses.insert(address);
    }
  }
  return {addresses.begin(), addresses.end()};
}

}  // namespace stalltrace::autopsy
