// SPDX-License-Identifier: Apache-2.0
// Whose data a connection carries, from the profiler plugin's marks (bpf/wire/marker.h). A mark says: this thread has
// just finished a step between these ranks on this channel, and this is the socket it moved bytes on last. That it is
// the connection's socket is proven by one of two things:
//   - nothing else of that direction was under way in the process, and the transfer falls into that time;
//   - since the connection's mark before, the socket has moved what the connection's steps have, and little more (each
//     step has a header). Where NCCL's socket helpers move the data, the thread itself moves headers only. Collectives
//     and Send/Recv have sockets of their own, so the steps are those of the mark's kind; or of all kinds, where they
//     share one. Either way it is the place's.
// It takes two proofs. A socket for which different places are proven has none. Pure; one thread.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "wire/marker.h"

namespace stalltrace::capture {

/// One direction between two ranks of a communicator on one channel.
struct CommSocket {
  int32_t pid = 0;
  uint64_t nccl_comm_hash = 0;
  int32_t rank = 0;  // the process's, in the communicator
  int32_t ranks = 0;
  int32_t peer = 0;
  int32_t channel = 0;
  bool is_send = false;

  auto operator<=>(const CommSocket&) const = default;
};

class SocketAttribution {
 public:
  /// True where the place of the mark's socket has changed: it is known now, or no longer.
  bool on_mark(const st_step_mark& mark);
  [[nodiscard]] std::optional<CommSocket> place_of(uint64_t cookie) const;
  void forget_connection(uint64_t cookie) { evidence_.erase(cookie); }
  /// It marks no more; what its marks have proven stays until its connections are forgotten.
  void forget_process(int32_t pid);

 private:
  struct Evidence {
    CommSocket place;
    int proofs = 0;
    bool contradicted = false;
  };

  std::map<std::pair<CommSocket, int>, st_step_mark> last_marks_;  // by place and enum st_step_kind
  std::unordered_map<uint64_t, Evidence> evidence_;                // by cookie
};

}  // namespace stalltrace::capture
