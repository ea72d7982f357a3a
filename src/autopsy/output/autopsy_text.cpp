// SPDX-License-Identifier: Apache-2.0
#include "autopsy/output/autopsy_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "analysis/rank_numbers.h"
#include "autopsy/judge/peers.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::autopsy {
namespace {

constexpr size_t kSocketsListed = 12;
constexpr size_t kCommunicatorsListed = 12;

std::string rank_name(const RankState& rank) {
  return rank.rank ? fmt::format("rank {}", *rank.rank) : std::string("rank unknown");
}

std::string where(const RankState& rank) {
  if (!rank.problem.empty()) {
    return "not readable: " + rank.problem;
  }
  std::string text = rank.call_site ? fmt::format("{}, {}", rank.location, rank.activity) : rank.activity;
  if (rank.run_state == RunState::kFrozen) {
    text = "frozen by its cgroup, " + text;
  }
  if (rank.call && rank.call->witness == Witness::kNative) {
    text += fmt::format(", inside {}", rank.call->name);
  } else if (!rank.call && !rank.call_known) {
    text += fmt::format(" (whether it is inside a call is not known: {})", rank.call_problem);
  }
  return text;
}

bool is_idle(const TcpSocket& socket) {
  return socket.send_queue == 0 && socket.receive_queue == 0 && socket.state == TcpState::kEstablished;
}

std::string timer_text(const TcpSocket& socket) {
  switch (socket.timer) {
    case Timer::kRetransmit:
      return socket.tries == 0 ? ""
                               : fmt::format(", repeated {} times in vain, time-out {}", socket.tries,
                                             format_duration(socket.time_out_ms * kNsPerMs));
    case Timer::kWindowProbe:
      return fmt::format(", the peer's window is closed, probed {} times", socket.tries);
    case Timer::kNone:
    case Timer::kKeepAlive:
    case Timer::kTimeWait:
      break;
  }
  return "";
}

std::string socket_line(const RankState& from, const std::string& peer, const TcpSocket& socket) {
  const uint32_t sent = socket.send_queue - std::min(socket.not_sent, socket.send_queue);
  return fmt::format(
      "{} {} -> {} {} ({}): {} not acknowledged, {} not sent, {} not read{}{}", rank_name(from),
      format_endpoint(socket.local), peer, format_endpoint(socket.remote), to_text(socket.state), format_size(sent),
      format_size(socket.not_sent), format_size(socket.receive_queue), timer_text(socket),
      socket.silent_ms ? fmt::format(", silent for {}", format_duration(*socket.silent_ms * kNsPerMs)) : "");
}

bool of_several_hosts(const Snapshot& snapshot) {
  return std::ranges::any_of(snapshot.ranks,
                             [&](const RankState& rank) { return rank.node != snapshot.ranks.front().node; });
}

struct Lines {
  std::vector<std::string> busy;
  size_t idle = 0;
  std::optional<int64_t> silent_ms;
};

Lines socket_lines(const Snapshot& snapshot, const std::string& job) {
  Lines lines;
  const auto take = [&](size_t from, const std::string& peer, const TcpSocket& socket) {
    const RankState& rank = snapshot.ranks[from];
    if (rank.job != job) {
      return;
    }
    if (is_idle(socket)) {
      ++lines.idle;
    } else {
      lines.busy.push_back(socket_line(rank, peer, socket));
    }
  };
  for (const RankConnection& connection : rank_connections(snapshot)) {
    take(connection.from, rank_name(snapshot.ranks[connection.to]), *connection.socket);
    if (snapshot.ranks[connection.from].job == job && connection.socket->silent_ms) {
      lines.silent_ms = std::min(lines.silent_ms.value_or(INT64_MAX), *connection.socket->silent_ms);
    }
  }
  for (const OutsideConnection& connection : outside_connections(snapshot)) {
    take(connection.from, of_several_hosts(snapshot) ? "no rank that was looked at" : "no rank here",
         *connection.socket);
  }
  return lines;
}

/// " launched 120 AllReduce, 3 Broadcast"
std::string launched_text(const stacks::NcclCommunicator& communicator) {
  std::string text;
  for (const auto& [operation, count] : communicator.launched) {
    if (count > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, operation);
    }
  }
  return !text.empty()                   ? " launched " + text
         : communicator.launched.empty() ? ", whose calls this version of NCCL does not count"
                                         : " launched none";
}

/// A line for each communicator and number of launches: the ranks that have it.
std::vector<std::string> communicator_lines(const Snapshot& snapshot, const std::string& job) {
  struct Side {
    int32_t nranks = 0;
    std::vector<int32_t> ranks;  // on the communicator
  };
  std::map<std::pair<CommHash, std::string>, Side> sides;
  for (const RankState& rank : snapshot.ranks) {
    for (const stacks::NcclCommunicator& one : rank.communicators) {
      if (rank.job == job) {
        Side& side = sides[{one.hash, launched_text(one)}];
        side.nranks = one.nranks;
        side.ranks.push_back(one.rank);
      }
    }
  }
  std::vector<std::string> lines;
  for (auto& [key, side] : sides) {
    lines.push_back(fmt::format("communicator {} of {}: {}{}", format_hash(key.first), count_of(side.nranks, "rank"),
                                analysis::ranks_text(std::move(side.ranks)), printable(key.second)));
  }
  return lines;
}

}  // namespace

std::string job_text(const Snapshot& last, const JobVerdict& verdict) {
  const bool several = of_several_hosts(last);
  std::string text;
  for (const RankState& rank : last.ranks) {
    if (rank.job == verdict.job) {
      text += fmt::format("  {:<8}  pid {:<8}  {}{}\n", rank_name(rank), rank.pid,
                          several ? printable(rank.node) + "  " : "", printable(where(rank)));
    }
  }
  const Lines lines = socket_lines(last, verdict.job);
  for (size_t i = 0; i < std::min(lines.busy.size(), kSocketsListed); ++i) {
    text += fmt::format("  {:<8}  {}\n", i == 0 ? "sockets" : "", lines.busy[i]);
  }
  if (lines.idle + lines.busy.size() > 0) {
    const size_t more = lines.busy.size() - std::min(lines.busy.size(), kSocketsListed);
    text += fmt::format("  {:<8}  {}{} idle{}\n", lines.busy.empty() ? "sockets" : "",
                        more > 0 ? fmt::format("{} more like these, ", more) : "", lines.idle,
                        lines.silent_ms ? fmt::format("; the last data between ranks went {} ago",
                                                      format_duration(*lines.silent_ms * kNsPerMs))
                                        : "");
  }
  const std::vector<std::string> communicators = communicator_lines(last, verdict.job);
  for (size_t i = 0; i < std::min(communicators.size(), kCommunicatorsListed); ++i) {
    text += fmt::format("  {:<8}  {}\n", i == 0 ? "nccl" : "", communicators[i]);
  }
  if (communicators.size() > kCommunicatorsListed) {
    text += fmt::format("  {:<8}  {} more like these\n", "", communicators.size() - kCommunicatorsListed);
  }
  return text;
}

}  // namespace stalltrace::autopsy
