// SPDX-License-Identifier: Apache-2.0
// Entries of a black box → events of the model. Every number is checked here, once: what cannot be is unknown. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "blackbox/reader.h"
#include "model/events.h"

namespace stalltrace::blackbox {

/// What stands behind a node's times: UTC minus CLOCK_MONOTONIC by the box's newest clock anchor; none where no anchor
/// makes sense.
std::optional<int64_t> clock_offset_of(const st_box_header& header);

/// A CLOCK_MONOTONIC time of a box in UTC; none for 0 and for what no clock has shown yet.
std::optional<int64_t> to_utc(uint64_t monotonic_ns, int64_t clock_offset_ns);

/// The newest state of every event of a box, by id.
class EventTable {
 public:
  struct Entry {
    st_box_event event{};
    bool open = false;
  };
  void add(const Contents& contents);
  void add(const st_box_event& event, bool open) { entries_[event.id] = {event, open}; }
  void erase(uint64_t id) { entries_.erase(id); }
  [[nodiscard]] const std::map<uint64_t, Entry>& entries() const { return entries_; }
  [[nodiscard]] const Entry* find(uint64_t id) const;
  /// The newest time that any of them bears, CLOCK_MONOTONIC; what lies after `now_ns` does not count.
  [[nodiscard]] uint64_t last_sign_of_life(uint64_t now_ns) const;

 private:
  std::map<uint64_t, Entry> entries_;
};

/// Whose rows are made.
struct Owner {
  NodeId node_id = 0;
  int32_t pid = 0;
  int64_t clock_offset_ns = 0;
};

Process decode_process(const st_box_header& header, const Owner& owner);
std::optional<Communicator> decode_communicator(const st_box_communicator& entry, const Owner& owner);

/// The row of a COLL or P2P entry, without event_id; none for other types and for entries that make no sense.
/// `communicator` is the one it names, or null.
std::optional<Collective> decode_collective(const EventTable::Entry& entry, const EventTable& table,
                                            const st_box_communicator* communicator, const Owner& owner);

/// A collective, Send or Recv of a box on its way to a row.
struct BoxCall {
  Collective row;      // without event_id
  uint64_t id = 0;     // in the box
  uint64_t group = 0;  // of its API call, in the box; 0 unknown
};
std::optional<BoxCall> decode_call(const EventTable::Entry& entry, const EventTable& table,
                                   const st_box_communicator* communicator, const Owner& owner);

/// NCCL launches the collectives of a group in an order of its own, and numbers them so; the probes number calls. Gives
/// the numbers of a group to its collectives in the order of the calls.
void number_in_call_order(std::vector<BoxCall>& calls);

/// When the process did not run though its pulse was due: stopped, or kept from the CPU. Open where it does not now.
std::vector<WaitSpan> decode_pauses(const Contents& contents, const Owner& owner, uint64_t now_ns);
/// The last beat of its pulse, CLOCK_MONOTONIC; 0 where there was none, or it is of another time.
uint64_t last_beat(const st_box_header& header, uint64_t now_ns);

/// What the writer counted as lost, as rows "box:..."; zero counts are left out.
std::vector<Loss> decode_losses(const Contents& contents, NodeId node);

}  // namespace stalltrace::blackbox
