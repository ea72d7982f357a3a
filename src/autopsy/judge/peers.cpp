// SPDX-License-Identifier: Apache-2.0
#include "autopsy/judge/peers.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/net/loopback.h"

namespace stalltrace::autopsy {
namespace {

struct Held {
  size_t rank = 0;
  const TcpSocket* socket = nullptr;
};

bool has_other_end(const TcpSocket& socket) {
  return socket.state != TcpState::kListen && socket.state != TcpState::kUnknown && socket.remote.port != 0;
}

/// Calls `with_peer` or `without` for each connected socket.
void each_socket(const Snapshot& snapshot, const auto& with_peer, const auto& without) {
  std::multimap<std::pair<Endpoint, Endpoint>, Held> by_ends;
  for (size_t i = 0; i < snapshot.ranks.size(); ++i) {
    for (const TcpSocket& socket : snapshot.ranks[i].sockets) {
      by_ends.emplace(std::pair(socket.local, socket.remote), Held{i, &socket});
    }
  }
  for (size_t i = 0; i < snapshot.ranks.size(); ++i) {
    for (const TcpSocket& socket : snapshot.ranks[i].sockets) {
      if (!has_other_end(socket)) {
        continue;
      }
      std::vector<Held> others;
      const auto [first, last] = by_ends.equal_range({socket.remote, socket.local});
      for (auto other = first; other != last; ++other) {
        const bool near = other->second.socket->netns == socket.netns || !is_loopback(socket.local.address);
        const bool known =
            std::ranges::any_of(others, [&](const Held& held) { return held.rank == other->second.rank; });
        if (near && !known && other->second.socket != &socket) {
          others.push_back(other->second);
        }
      }
      if (others.size() == 1) {
        with_peer(i, socket, others.front());
      } else if (others.empty()) {
        without(i, socket);
      }
    }
  }
}

}  // namespace

std::vector<RankConnection> rank_connections(const Snapshot& snapshot) {
  std::vector<RankConnection> connections;
  each_socket(
      snapshot,
      [&](size_t rank, const TcpSocket& socket, const Held& other) {
        if (other.rank != rank && snapshot.ranks[rank].job == snapshot.ranks[other.rank].job) {
          connections.push_back({rank, other.rank, &socket, other.socket});
        }
      },
      [](size_t, const TcpSocket&) {});
  return connections;
}

std::vector<OutsideConnection> outside_connections(const Snapshot& snapshot) {
  std::vector<OutsideConnection> connections;
  each_socket(
      snapshot, [](size_t, const TcpSocket&, const Held&) {},
      [&](size_t rank, const TcpSocket& socket) {
        connections.push_back({rank, &socket});
      });
  return connections;
}

}  // namespace stalltrace::autopsy
