// SPDX-License-Identifier: Apache-2.0
// Socket attribution from the profiler plugin's marks (bpf/wire/marker.h). A mark says: this thread has just finished a
// step between these ranks on this channel, and moved its last bytes on this socket. Either of two things proves that
// the socket is the connection's:
// - nothing else of that direction was under way in the process, and the transfer falls into that time;
// - since the connection's previous mark, the socket has moved the bytes of the connection's steps and little more
//   (each step has a header). Where NCCL's socket helpers move the data, the thread itself moves headers only.
//   Collectives and Send/Recv have separate sockets, so the steps are those of the mark's kind, or those of all kinds
//   where they share one.
// Two proofs are required. A socket with proofs for different connections is attributed to none. Pure; one thread.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "capture/user_shares.h"
#include "wire/marker.h"

namespace stalltrace::capture {

/// One direction between two ranks of a communicator on one channel.
struct CommSocket {
  int32_t pid = 0;
  uint64_t nccl_comm_hash = 0;
  int32_t rank = 0;  // of the process, in the communicator
  int32_t ranks = 0;
  int32_t peer = 0;
  int32_t channel = 0;
  bool is_send = false;

  auto operator<=>(const CommSocket&) const = default;
};

class SocketAttribution {
 public:
  /// `shares` must outlive the object.
  explicit SocketAttribution(UserShares& shares) : shares_(shares) {}

  /// True if the attribution of the mark's socket has changed: it became known or unknown.
  bool on_mark(const st_step_mark& mark);
  [[nodiscard]] std::optional<CommSocket> comm_socket_of(uint64_t cookie) const;
  /// True if marks prove that the socket carries several communicators, such as those of a split that shares its
  /// parent's connections. It stays so until the connection is forgotten.
  [[nodiscard]] bool is_shared(uint64_t cookie) const;
  void forget_connection(uint64_t cookie) { evidence_.erase(cookie); }
  /// The process sends no more marks; proven attributions stay until their connections are dropped.
  void forget_process(int32_t pid);

 private:
  struct Evidence {
    CommSocket comm_socket;
    int proofs = 0;
    bool contradicted = false;
    bool shared = false;
  };

  UserShares& shares_;
  std::map<std::pair<CommSocket, int>, st_step_mark> last_marks_;  // by connection and enum st_step_kind
  std::unordered_map<uint64_t, Evidence> evidence_;                // by cookie
};

}  // namespace stalltrace::capture
