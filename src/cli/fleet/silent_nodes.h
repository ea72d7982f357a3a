// SPDX-License-Identifier: Apache-2.0
// Nodes that take connections and answer nothing, or not to the end: some of the lab's --node-fault.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "base/handle.h"

namespace stalltrace::cli {

enum class Silence {
  kAll,        // sends nothing
  kAfterHead,  // sends the head of an answer, then nothing
  kTrickles,   // sends one byte a second
};

class SilentNodes {
 public:
  /// `listener`: a listening socket that does not block.
  void add(UniqueFd listener, Silence silence) { listeners_.push_back({std::move(listener), silence}); }
  [[nodiscard]] bool empty() const { return listeners_.empty(); }

  /// Takes connections and keeps each until its client leaves. Returns within a second after `stop` was requested.
  void run(const std::stop_token& stop);

 private:
  struct Listener {
    UniqueFd socket;
    Silence silence = Silence::kAll;
  };
  struct Connection {
    UniqueFd socket;
    Silence silence = Silence::kAll;
    bool asked = false;  // something of a request has arrived
    size_t sent = 0;     // bytes of the answer
    int64_t due_ns = 0;  // of the next byte, on the monotonic clock
  };
  void take_connections();
  static bool read_request(Connection& connection);
  static void send_a_part(Connection& connection);

  std::vector<Listener> listeners_;
  std::vector<Connection> connections_;
};

}  // namespace stalltrace::cli
