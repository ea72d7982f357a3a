// SPDX-License-Identifier: Apache-2.0
// Does the job progress? A hang is what two snapshots have in common; a job whose calls end, or whose data flow, has
// none.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "autopsy/judge/job.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::autopsy {
namespace {

/// In a hang the CPU of some ranks may run ahead and launch more calls: all ranks must get on.
std::string calls_that_ended(const Job& job) {
  int64_t ended = 0;
  int64_t launched = 0;
  int64_t watched_ns = 0;
  for (const RankState& rank : job.ranks()) {
    const auto of_host = job.context().traced.find(rank.node);
    if (of_host == job.context().traced.end()) {
      return {};
    }
    watched_ns = std::max(watched_ns, of_host->second.lasted_ns);
    const auto& calls = of_host->second.calls;
    const auto found = std::ranges::find(calls, rank.pid, &std::pair<pid_t, Traced::Calls>::first);
    if (found == calls.end() || found->second.ended + found->second.launched == 0) {
      return {};
    }
    ended += found->second.ended;
    launched += found->second.launched;
  }
  if (ended + launched == 0) {
    return {};
  }
  return fmt::format("on all its ranks {} {} in {}", job.here(),
                     launched == 0 ? count_of(ended, "call") + " ended"
                                   : fmt::format("{} ended, and {} launched", count_of(ended, "call"),
                                                 launched == 1 ? "1 was" : fmt::format("{} were", launched)),
                     format_duration(watched_ns));
}

/// Each connection is judged by itself: those with heartbeats alone grow in number with the ranks, and all together
/// carry as much as a slow job. A rank without a main connection is not asked: its data may use no sockets. Another one
/// may only send or only receive, as in a broadcast.
std::string data_that_flowed(const Job& job) {
  const std::vector<const RankConnection*> connections = job.main_connections();
  if (connections.empty() || !std::ranges::all_of(connections, [&](const RankConnection* connection) {
        return job.exchanges_data(connection->from);
      })) {
    return {};
  }
  uint64_t bytes = 0;
  for (const RankConnection& connection : job.connections()) {
    if (const TcpSocket* before = job.before(connection.from, *connection.socket)) {
      const uint64_t received = connection.socket->received;
      bytes += received - std::min(received, before->received);
    }
  }
  return fmt::format("{} went between its ranks in {}", format_size(static_cast<int64_t>(bytes)),
                     format_duration(job.longest_watched_ns()));
}

}  // namespace

std::string progress_of(const Job& job) {
  const std::string calls = calls_that_ended(job);
  return calls.empty() ? data_that_flowed(job) : calls;
}

}  // namespace stalltrace::autopsy
