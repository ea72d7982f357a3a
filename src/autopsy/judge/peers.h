// SPDX-License-Identifier: Apache-2.0
// Which rank holds the other end of each socket. Pure.
#pragma once

#include <optional>
#include <vector>

#include "autopsy/snapshot.h"

namespace stalltrace::autopsy {

/// A socket of one rank whose other end another rank of the snapshot holds.
struct RankConnection {
  size_t from = 0;  // index of the rank
  size_t to = 0;
  const TcpSocket* socket = nullptr;  // of `from`
  const TcpSocket* other = nullptr;   // of `to`
};

/// All such sockets, each direction once. Containers may use the same addresses: an end that fits several sockets is
/// left out, and of loopback addresses only those of one host's namespace belong together.
std::vector<RankConnection> rank_connections(const Snapshot& snapshot);

/// A socket whose other end no rank of the snapshot holds.
struct OutsideConnection {
  size_t from = 0;
  const TcpSocket* socket = nullptr;
};
/// Of sockets that are, or were, connected.
std::vector<OutsideConnection> outside_connections(const Snapshot& snapshot);

}  // namespace stalltrace::autopsy
