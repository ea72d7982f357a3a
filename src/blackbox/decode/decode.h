// SPDX-License-Identifier: Apache-2.0
// Entries of a profiler file → events of the model. Every number is checked here, once: what cannot be is unknown.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "blackbox/format/event_table.h"
#include "blackbox/format/reader.h"
#include "model/events.h"

namespace stalltrace::blackbox {

/// Times of a box from here on are no times: 73 years after its host came up.
inline constexpr uint64_t kLatestTime = 1ULL << 61;

/// A rank as a box gives it; none for a number that can't be one.
std::optional<int32_t> rank_of(int32_t rank);

/// What stands behind a node's times: UTC minus CLOCK_MONOTONIC by the box's newest clock anchor; none where no anchor
/// makes sense.
std::optional<int64_t> clock_offset_of(const st_box_header& header);

/// A CLOCK_MONOTONIC time of a box in UTC; none for 0 and for what no clock has shown yet.
std::optional<int64_t> to_utc(uint64_t monotonic_ns, int64_t clock_offset_ns);

/// Whose rows are made.
struct Owner {
  NodeId node_id = 0;
  int32_t pid = 0;
  int64_t clock_offset_ns = 0;
};

Process decode_process(const st_box_header& header, const Owner& owner);
std::optional<Communicator> decode_communicator(const st_box_communicator& entry, const Owner& owner);

/// The row of a COLL, P2P or CE_COLL entry, without event_id, or of a COLL_API or P2P_API that the table knows nothing
/// launched by: launched, its end not told; open while its group's end has not returned. None for other types, for
/// calls whose row is another entry's, that are only noted or captured, and for entries that make no sense.
/// `communicator` is the one it names, or null.
std::optional<Collective> decode_collective(const EventTable::Entry& entry, const EventTable& table,
                                            const st_box_communicator* communicator, const Owner& owner);

/// A collective, Send or Recv of a box on its way to a row.
struct BoxCall {
  Collective row;      // without event_id
  uint64_t id = 0;     // in the box
  uint64_t group = 0;  // of its API call, in the box; 0 unknown
  uint64_t api = 0;    // its API call, in the box; 0 unknown. Its own id where nothing else is told of it
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

/// What the writer counted as lost, as rows "profiler:..."; zero counts are left out.
std::vector<Loss> decode_losses(const Contents& contents, NodeId node);

}  // namespace stalltrace::blackbox
