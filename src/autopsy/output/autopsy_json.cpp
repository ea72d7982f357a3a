// SPDX-License-Identifier: Apache-2.0
// The JSON of `autopsy --json`.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "autopsy/judge/peers.h"
#include "autopsy/output/autopsy_text.h"
#include "stacks/output/stacks_text.h"

namespace stalltrace::autopsy {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::kStopped:
      return "stopped";
    case RunState::kDebugged:
      return "debugged";
    case RunState::kFrozen:
      return "frozen";
    case RunState::kAlive:
      break;
  }
  return "alive";
}

std::string_view name_of(Timer timer) {
  switch (timer) {
    case Timer::kRetransmit:
      return "retransmit";
    case Timer::kKeepAlive:
      return "keepalive";
    case Timer::kTimeWait:
      return "time_wait";
    case Timer::kWindowProbe:
      return "window_probe";
    case Timer::kNone:
      break;
  }
  return "none";
}

Json to_json(const TcpSocket& socket, const RankState* peer) {
  return {{"local", format_endpoint(socket.local)},
          {"remote", format_endpoint(socket.remote)},
          {"peer_rank", peer != nullptr ? or_null(peer->rank) : Json(nullptr)},
          {"peer_pid", peer != nullptr ? Json(peer->pid) : Json(nullptr)},
          {"state", to_text(socket.state)},
          {"unacked_bytes", socket.send_queue - std::min(socket.not_sent, socket.send_queue)},
          {"unsent_bytes", socket.not_sent},
          {"unread_bytes", socket.receive_queue},
          {"acked_bytes", socket.acked},
          {"received_bytes", socket.received},
          {"timer", name_of(socket.timer)},
          {"tries", socket.tries},
          {"backoff", socket.backoff},
          {"timeout_ms", socket.time_out_ms},
          {"silent_ms", or_null(socket.silent_ms)}};
}

Json to_json(const stacks::NcclCommunicator& communicator) {
  Json launched = Json::object();
  for (const auto& [operation, count] : communicator.launched) {
    launched[operation] = count;
  }
  return {{"hash", format_hash(communicator.hash)},
          {"rank", communicator.rank},
          {"nranks", communicator.nranks},
          {"device", communicator.device},
          {"launched", std::move(launched)}};
}

Json to_json(const std::optional<OpenCall>& call) {
  return call ? Json{{"name", call->name},
                     {"op", call->op ? Json(to_text(*call->op)) : Json(nullptr)},
                     {"seen_in", call->witness == Witness::kPython ? "python_frames" : "native_stack"}}
              : Json(nullptr);
}

/// As `stacks --json` has them, each with the call that was seen on its native stack.
Json threads_of(const RankState& rank) {
  if (!rank.threads) {
    return nullptr;
  }
  Json threads = Json::array();
  for (const stacks::ThreadStack& thread : *rank.threads) {
    threads.push_back(stacks::thread_json(thread));
    const auto call = std::ranges::find(rank.thread_calls, thread.tid, &std::pair<pid_t, OpenCall>::first);
    threads.back()["call"] = call == rank.thread_calls.end() ? Json(nullptr) : to_json(std::optional(call->second));
  }
  return threads;
}

}  // namespace

nlohmann::ordered_json ranks_json(const Snapshot& snapshot) {
  std::map<const TcpSocket*, size_t> peers;
  for (const RankConnection& connection : rank_connections(snapshot)) {
    peers[connection.socket] = connection.to;
  }
  Json ranks = Json::array();
  for (const RankState& rank : snapshot.ranks) {
    Json one{{"node", rank.node},
             {"pid", rank.pid},
             {"rank", or_null(rank.rank)},
             {"world_size", or_null(rank.world_size)},
             {"job", rank.job},
             {"state", name_of(rank.run_state)},
             {"location", or_null(rank.location)},
             {"activity", or_null(rank.activity)},
             {"call", to_json(rank.call)},
             {"call_known", rank.call_known},
             {"threads", threads_of(rank)},
             {"threads_left_out", rank.threads_left_out},
             {"problem", or_null(!rank.problem.empty() ? rank.problem : rank.no_sockets)},
             {"communicators", Json::array()},
             {"communicators_problem", or_null(rank.communicators_problem)},
             {"sockets", Json::array()}};
    for (const stacks::NcclCommunicator& communicator : rank.communicators) {
      one["communicators"].push_back(to_json(communicator));
    }
    for (const TcpSocket& socket : rank.sockets) {
      const auto peer = peers.find(&socket);
      one["sockets"].push_back(to_json(socket, peer == peers.end() ? nullptr : &snapshot.ranks[peer->second]));
    }
    ranks.push_back(std::move(one));
  }
  return ranks;
}

}  // namespace stalltrace::autopsy
