// SPDX-License-Identifier: Apache-2.0
// The communicators of one process under both their names: the pointer that the probes see, and the serial number in
// the profiler file. NCCL's own hash connects them, or the first call that both report. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "model/events.h"

namespace stalltrace::blackbox {

/// A file is read twice a second, unless the agent can't run: what is older than this does not come any more.
inline constexpr int64_t kReadLateNs = 20 * kNsPerSecond;
/// Communicators of a process that are kept of those that the probes report. The probes follow as many at a time.
inline constexpr size_t kMostProbedCommunicators = 4096;

/// Identifies the counter that numbers a call: 0 for the collectives of a communicator, else operation and peer of a
/// Send or Recv.
uint64_t numbering_of(const Collective& row);

class CommunicatorIdentity {
 public:
  /// A row of the probes. Returns it with rank, size and hash from the file where the probes lack them. Beyond
  /// kMostProbedCommunicators one is forgotten, as by connect(): first those that were destroyed, the oldest first.
  Communicator accept_probed(Communicator row);
  /// A row of the file; `comm_ptr` is its serial number. False, and not kept, beyond 1,024 communicators.
  bool accept_profiled(const Communicator& row);
  /// Both rows describe one call. If that connects a communicator, returns the probes' row of it, completed as above.
  std::optional<Communicator> connect(const Collective& probed, const Collective& profiled);
  /// How many communicators of the probes were forgotten since the last call while calls of theirs could still come:
  /// they lived, or were destroyed less than kReadLateNs ago.
  uint64_t take_forgotten() { return std::exchange(forgotten_, 0); }

  /// A call of the probes on this communicator was captured into a CUDA graph. The probes count it, the file each of
  /// its launches: from here on a number of the file says nothing about the probes' calls.
  void note_captured(uint64_t pointer);
  /// Whether there was one, on the communicator that the probes have at this address.
  [[nodiscard]] bool captures(uint64_t pointer) const;

  /// Whether a call of the probes and one of the file may belong to the same communicator.
  [[nodiscard]] bool may_be_same(const Collective& probed, const Collective& profiled) const;
  /// The number of the probes' call in the file's count; nullopt if unknown. The probes count from the time they were
  /// attached.
  [[nodiscard]] std::optional<int64_t> file_number(const Collective& probed) const;

  /// Calls `visit(pointer, number, sure)` for the numbers under which the probes may have the file's call, until it
  /// returns true. `sure`: the communicators are connected or have the same hash. The connected one comes first.
  template <typename Visit>
  void for_each_probed_number(const Collective& profiled, const Visit& visit) const {
    if (!profiled.seq) {
      return;
    }
    const uint64_t numbering = numbering_of(profiled);
    const auto connected = pointers_.find(profiled.comm_ptr);
    if (connected != pointers_.end() && profiled.comm_ptr != 0 && !captures(connected->second) &&
        visit(connected->second, *profiled.seq - first_number(connected->second, numbering).value_or(0), true)) {
      return;
    }
    for (const uint64_t pointer : unconnected_) {
      const Probed& known = probed_.at(pointer);
      const uint64_t hash = known.row.nccl_comm_hash;
      if (known.captures) {
        continue;
      }
      if (hash != 0 && profiled.comm_id_hash != 0 && hash != profiled.comm_id_hash) {
        continue;
      }
      const bool sure = hash != 0 && hash == profiled.comm_id_hash;
      if (visit(pointer, *profiled.seq - first_number(pointer, numbering).value_or(0), sure)) {
        return;
      }
    }
  }
  /// The file's number of the probes' number 0; nullopt where both count alike, or it is unknown.
  [[nodiscard]] std::optional<int64_t> first_number(uint64_t pointer, uint64_t numbering) const;

  /// Completes a call of the probes: hash, number, rank and size where only the file has them.
  void complete(Collective& probed) const;
  /// Replaces serial number and hash of a call of the file by the probes' names. Returns false and leaves the row
  /// unchanged where the probes do not know the communicator.
  bool rename(Collective& profiled) const;
  /// The file's row of a serial number, or null.
  [[nodiscard]] const Communicator* profiled(uint64_t serial) const;
  /// The probes' row of the communicator with NCCL's hash, or null. Linear in the communicators.
  [[nodiscard]] const Communicator* find(uint64_t nccl_comm_hash) const;

 private:
  struct Probed {
    Communicator row;
    bool accepted = false;                     // the probes have delivered its row
    uint64_t serial = 0;                       // in the file; 0 not connected
    std::map<uint64_t, int64_t> first_number;  // by counter, see numbering_of
    uint64_t order = 0;                        // in which they became known, from 1
    bool captures = false;                     // see note_captured
    [[nodiscard]] std::optional<int64_t> first(uint64_t numbering) const;
  };
  /// Whether the probes' call was made on the former communicator at this address.
  [[nodiscard]] bool is_former(const Collective& probed) const;
  /// The call's communicator; null if unknown.
  [[nodiscard]] const Probed* probed_of(const Collective& probed) const;
  Communicator completed(Communicator row, const Probed& known) const;
  using Position = std::tuple<bool, uint64_t, uint64_t>;  // lives, order, pointer
  static Position position_of(uint64_t pointer, const Probed& known);
  void forget_surplus();
  void disconnect(uint64_t pointer, const Probed& known);

  std::unordered_map<uint64_t, Probed> probed_;          // by pointer
  std::unordered_map<uint64_t, Probed> former_;          // by pointer in `probed_`: predecessors at the same address
  std::set<Position> in_order_;                          // of `probed_`: the first to be forgotten first
  std::set<uint64_t> unconnected_;                       // pointers in `probed_` without a serial number
  std::unordered_map<uint64_t, Communicator> profiled_;  // by serial number
  std::unordered_map<uint64_t, uint64_t> pointers_;      // by serial number
  uint64_t last_order_ = 0;
  int64_t newest_ns_ = 0;  // UTC; of all creations and ends
  uint64_t forgotten_ = 0;
};

}  // namespace stalltrace::blackbox
