// SPDX-License-Identifier: Apache-2.0
#include "autopsy/judge/peers.h"

#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/net/loopback.h"

namespace stalltrace::autopsy {
namespace {

struct Held {
  size_t rank = 0;
  const TcpSocket* socket = nullptr;
};

/// Whose socket it is: two holders are as good as more, an end that fits several belongs to none.
struct Holders {
  std::optional<Held> first;
  bool several = false;
};

/// A loopback address is one of its namespace; namespaces of different hosts may have the same number.
using Ends = std::tuple<std::string_view, uint64_t, Endpoint, Endpoint>;  // node, namespace, local, remote

bool has_other_end(const TcpSocket& socket) {
  return socket.state != TcpState::kListen && socket.state != TcpState::kUnknown && socket.remote.port != 0 &&
         socket.local != socket.remote;
}

/// Of the socket that `rank` holds, or would hold in the same namespace.
Ends ends_of(const RankState& rank, const TcpSocket& of, const Endpoint& local, const Endpoint& remote) {
  const bool near = is_loopback(of.local.address) || is_loopback(of.remote.address);
  return {near ? std::string_view(rank.node) : std::string_view(), near ? of.netns : 0, local, remote};
}

/// Calls `with_peer` or `without` for each connected socket.
void each_socket(const Snapshot& snapshot, const auto& with_peer, const auto& without) {
  std::map<Ends, Holders> by_ends;
  for (size_t i = 0; i < snapshot.ranks.size(); ++i) {
    for (const TcpSocket& socket : snapshot.ranks[i].sockets) {
      Holders& holders = by_ends[ends_of(snapshot.ranks[i], socket, socket.local, socket.remote)];
      if (!holders.first) {
        holders.first = Held{i, &socket};
      } else if (holders.first->rank != i) {
        holders.several = true;
      }
    }
  }
  for (size_t i = 0; i < snapshot.ranks.size(); ++i) {
    for (const TcpSocket& socket : snapshot.ranks[i].sockets) {
      if (!has_other_end(socket)) {
        continue;
      }
      const auto other = by_ends.find(ends_of(snapshot.ranks[i], socket, socket.remote, socket.local));
      if (other == by_ends.end()) {
        without(i, socket);
      } else if (!other->second.several) {
        with_peer(i, socket, *other->second.first);
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
