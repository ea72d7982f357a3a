// SPDX-License-Identifier: Apache-2.0
// A rank's data connections: one for each direction, peer and use, made when first used: a TCP connection, or a UNIX
// socket to a rank of the same node where ranks listen locally. The sender connects to the receiver's listener and says
// who it is. Owned and used by the proxy thread alone; nothing blocks.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "copy_engine.h"
#include "nccl.h"
#include "socket.h"

namespace lab::nccl {

/// Ring collectives and point-to-point operations don't share connections.
enum class LinkUse : uint32_t { kRing = 0, kPeerToPeer = 1 };

class Links {
 public:
  /// Where a rank accepts connections; `local` is empty if ranks of one node use TCP as well.
  struct Listeners {
    Socket tcp;
    Socket local;
  };

  /// `peers[r]` is the address of rank r's TCP listener; `listeners` are this rank's own; `magic` distinguishes
  /// communicators.
  Links(int rank, uint64_t magic, Listeners listeners, std::vector<SocketAddress> peers);

  /// The connection to send to `peer` over: *fd is -1 while it is being made.
  ncclResult_t outgoing(LinkUse use, int peer, int* fd);
  /// The connection `peer` sends over, -1 until it has connected.
  [[nodiscard]] int incoming(LinkUse use, int peer) const;

  /// Received data pass through it to the device.
  [[nodiscard]] CopyEngine& copy_engine() { return copy_engine_; }
  [[nodiscard]] const CopyEngine& copy_engine() const { return copy_engine_; }

  /// Adds the descriptors that the links wait for: incoming connections, and those being made.
  void add_polls(std::vector<pollfd>* polls) const;
  /// Advances all of these as far as possible.
  ncclResult_t progress();

 private:
  using Key = std::pair<LinkUse, int>;
  struct Hello {
    uint64_t magic;
    uint32_t use;
    int32_t rank;
  };
  struct Outgoing {
    Socket socket;
    bool ready = false;
  };
  struct Newcomer {
    Socket socket;
    Hello hello;
    size_t got;
  };

  /// True if data to and from the peer stay on the node and don't go over TCP.
  [[nodiscard]] bool is_local(int peer) const;
  ncclResult_t finish_connect(Key key, Outgoing* link);
  ncclResult_t accept_newcomers(const Socket& listener);
  ncclResult_t admit_newcomers();

  int rank_;
  uint64_t magic_;
  Listeners listeners_;
  std::vector<SocketAddress> peers_;
  std::map<Key, Outgoing> outgoing_;
  std::map<Key, Socket> incoming_;
  std::vector<Newcomer> newcomers_;
  CopyEngine copy_engine_;
};

}  // namespace lab::nccl
