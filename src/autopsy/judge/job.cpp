// SPDX-License-Identifier: Apache-2.0
#include "autopsy/judge/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>

#include "autopsy/judge/thresholds.h"
#include "base/clock.h"
#include "base/net/loopback.h"
#include "base/text.h"

namespace stalltrace::autopsy {
namespace {

constexpr size_t kNamed = 8;

using ProcessKey = std::tuple<std::string_view, pid_t, uint64_t>;

ProcessKey key_of(const RankState& rank) { return {rank.node, rank.pid, rank.start_ticks}; }

auto key_of(const TcpSocket& socket) {
  return std::tuple<uint64_t, uint64_t, const Endpoint&, const Endpoint&>(socket.inode, socket.netns, socket.local,
                                                                          socket.remote);
}

/// For hostile files with a hundred thousand sockets a search from the first on takes too long.
std::vector<const TcpSocket*> sorted_sockets(const RankState* rank) {
  std::vector<const TcpSocket*> sockets;
  if (rank != nullptr) {
    for (const TcpSocket& socket : rank->sockets) {
      sockets.push_back(&socket);
    }
  }
  std::ranges::stable_sort(sockets, [](const TcpSocket* a, const TcpSocket* b) { return key_of(*a) < key_of(*b); });
  return sockets;
}

}  // namespace

Job::Job(Snapshot first, Snapshot last, const Context& context)
    : first_(std::move(first)), last_(std::move(last)), context_(context) {
  std::map<ProcessKey, const RankState*> first_by_key;
  std::set<ProcessKey> still_there;
  for (const RankState& rank : first_.ranks) {
    first_by_key.emplace(key_of(rank), &rank);
  }
  for (const RankState& rank : last_.ranks) {
    const auto found = first_by_key.find(key_of(rank));
    before_.push_back(found == first_by_key.end() ? nullptr : found->second);
    sockets_before_.push_back(sorted_sockets(before_.back()));
    still_there.insert(key_of(rank));
  }
  std::ranges::copy_if(first_.ranks, std::back_inserter(ended_),
                       [&](const RankState& rank) { return !still_there.contains(key_of(rank)); });
  for (const Snapshot* snapshot : {&first_, &last_}) {
    for (const RankState& rank : snapshot->ranks) {
      hosts_.insert(rank.node);
    }
  }
  connections_ = rank_connections(last_);
  outside_ = outside_connections(last_);
  find_who_gets_on();
}

const TcpSocket* Job::before(size_t rank, const TcpSocket& socket) const {
  const auto& sockets = sockets_before_[rank];
  const auto found = std::ranges::lower_bound(sockets, key_of(socket), std::ranges::less(),
                                              [](const TcpSocket* other) { return key_of(*other); });
  return found == sockets.end() || !(*found)->same_socket(socket) ? nullptr : *found;
}

int64_t Job::longest_watched_ns() const {
  int64_t longest_ns = watched_ns();
  for (const auto& [node, traced] : context_.traced) {
    longest_ns = std::max(longest_ns, hosts_.contains(node) ? traced.lasted_ns : 0);
  }
  return longest_ns;
}

std::string Job::here() const {
  if (on_several_hosts()) {
    return fmt::format("on these {} hosts", hosts_.size());
  }
  return context_.traced.size() > 1 ? "on " + *hosts_.begin() : "here";
}

bool Job::may_be_elsewhere() const {
  const RankState* any = !ranks().empty() ? &ranks().front() : !ended_.empty() ? &ended_.front() : nullptr;
  return any != nullptr && context_.not_joined.contains(any->job);
}

Job::Times Job::times_of(size_t rank) const {
  const auto known = context_.views.find(ranks()[rank].node);
  return known == context_.views.end() ? Times{first_.taken_ns, last_.taken_ns}
                                       : Times{known->second.first_ns, known->second.last_ns};
}

bool Job::together(std::span<const size_t> ranks) const {
  Times common{INT64_MIN, INT64_MAX};
  for (const size_t rank : ranks) {
    const Times times = times_of(rank);
    common = {std::max(common.first_ns, times.first_ns), std::min(common.last_ns, times.last_ns)};
  }
  return common.first_ns <= common.last_ns;
}

void Job::limit_confidence(Finding& finding, std::span<const size_t> ranks) const {
  if (together(ranks)) {
    return;
  }
  Times all{INT64_MAX, INT64_MIN};
  for (const size_t rank : ranks) {
    const Times times = times_of(rank);
    all = {std::min(all.first_ns, times.first_ns), std::max(all.last_ns, times.last_ns)};
  }
  finding.confidence = std::min(finding.confidence, kApartConfidence);
  finding.summary +=
      fmt::format(" Their hosts were looked at one after the other, within {}: what was seen is not of one moment.",
                  format_duration(all.last_ns - all.first_ns));
}

bool Job::has_address(const std::string& address, const std::string& node) const {
  const auto among = [&](const std::vector<std::string>& addresses) {
    return std::ranges::find(addresses, address) != addresses.end();
  };
  if (context_.views.empty()) {
    return among(last_.host_addresses);
  }
  return std::ranges::any_of(context_.views, [&](const auto& view) {
    return hosts_.contains(view.first) && (node.empty() || view.first == node) && among(view.second.addresses);
  });
}

std::vector<const RankConnection*> Job::main_connections() const {
  const auto carried = [](const RankConnection& connection) {
    return connection.socket->acked + connection.socket->received;
  };
  uint64_t most = 0;
  for (const RankConnection& connection : connections_) {
    most = std::max(most, carried(connection));
  }
  std::vector<const RankConnection*> found;
  for (const RankConnection& connection : connections_) {
    if (carried(connection) >= most / kBulkShare) {
      found.push_back(&connection);
    }
  }
  return found;
}

std::optional<int64_t> Job::silent_ns() const {
  std::optional<int64_t> shortest_ms;
  for (const RankConnection* connection : main_connections()) {
    if (connection->socket->silent_ms) {
      shortest_ms = std::min(shortest_ms.value_or(INT64_MAX), *connection->socket->silent_ms);
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
  return !stopped(rank) && now.call_known && !now.call && before != nullptr && before->call_known && !before->call &&
         !gets_on(rank);
}

bool Job::made_calls(const RankState& rank) const {
  const auto traced = context_.traced.find(rank.node);
  return traced != context_.traced.end() && std::ranges::any_of(traced->second.calls, [&](const auto& of_process) {
           const auto& [pid, calls] = of_process;
           return pid == rank.pid && calls.ended + calls.launched > 0;
         });
}

void Job::find_who_gets_on() {
  for (const RankState& rank : ranks()) {
    gets_on_.push_back(made_calls(rank));
  }
  exchanges_data_.assign(ranks().size(), false);
  const auto written = [](const TcpSocket& socket) { return socket.acked + socket.send_queue; };
  const auto read = [](const TcpSocket& socket) {
    return socket.received - std::min<uint64_t>(socket.received, socket.receive_queue);
  };
  for (const RankConnection& connection : connections_) {
    const TcpSocket* earlier = before(connection.from, *connection.socket);
    if (earlier == nullptr) {
      continue;
    }
    const auto [first_ns, last_ns] = times_of(connection.from);
    const int64_t least = std::max<int64_t>(1, kProgressBytesPerSecond * (last_ns - first_ns) / kNsPerSecond);
    const auto grown = [&](const auto& count) {
      const uint64_t last = count(*connection.socket);
      return last - std::min(last, count(*earlier)) >= static_cast<uint64_t>(least);
    };
    if (grown(written) || grown(read)) {
      exchanges_data_[connection.from] = true;
      gets_on_[connection.from] = true;
    }
  }
}

std::string Job::short_name(size_t rank) const {
  const RankState& state = ranks()[rank];
  return state.rank ? fmt::format("rank {}", *state.rank) : fmt::format("pid {}", state.pid);
}

std::string Job::name(size_t rank) const {
  const RankState& state = ranks()[rank];
  return state.rank ? fmt::format("rank {} ({}, pid {})", *state.rank, state.node, state.pid)
                    : fmt::format("pid {} on {}", state.pid, state.node);
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

Culprit Job::culprit(size_t rank) const { return {ranks()[rank].node, ranks()[rank].rank, ranks()[rank].pid}; }

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
  finding.evidence.push_back(
      {"stack",
       static_cast<int64_t>(ranks.size()),
       ranks.empty() ? fmt::format("no other rank {} was seen to wait in a call", job.here()) : job.where(ranks),
       {}});
}

std::vector<std::string> foreign_addresses(const Job& job) {
  std::set<std::string> addresses;
  for (const OutsideConnection& connection : job.outside()) {
    const std::string& address = connection.socket->remote.address;
    if (!job.has_address(address) && !is_loopback(address) && connection.socket->state != TcpState::kCloseWait) {
      addresses.insert(address);
    }
  }
  return {addresses.begin(), addresses.end()};
}

}  // namespace stalltrace::autopsy
