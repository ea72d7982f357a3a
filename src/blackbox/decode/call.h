// SPDX-License-Identifier: Apache-2.0
// Calls of a profiler file → rows. NCCL reports a call as the COLL or P2P that it launches, as a CE_COLL (copy
// engines), or, where it launches neither, only as the COLL_API or P2P_API of the call itself. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "blackbox/decode/values.h"
#include "blackbox/format/event_table.h"
#include "model/events.h"

namespace stalltrace::blackbox {

/// A collective, Send or Recv. Ids are those of the file's events.
struct ProfilerCall {
  Collective row;  // without event_id; comm_ptr is the communicator's serial number in the file
  uint64_t id = 0;
  uint64_t group = 0;     // of its API call; 0 unknown
  uint64_t api = 0;       // its API call, or its own id where only the API call is known; 0 unknown
  bool by_graph = false;  // a CUDA graph, into which its API call was captured, has launched it
};

/// Converts a COLL, P2P or CE_COLL. An API call without a known launch is converted too: open until its group returns,
/// then with an unobserved completion. Returns nullopt for other types, for API calls whose launch has its own row,
/// that are not launched yet or were captured into a CUDA graph, and for entries with invalid numbers. `communicator`:
/// the one that the entry names, or null.
std::optional<ProfilerCall> decode_call(const EventTable::Entry& entry, const EventTable& table,
                                        const st_box_communicator* communicator, const Owner& owner);

/// NCCL launches a group's collectives in its own order and numbers them in that order; the probes number calls. This
/// assigns the numbers of each group's collectives in the order of the calls. What a CUDA graph launches keeps its own:
/// several launches have one group.
void number_in_call_order(std::vector<ProfilerCall>& calls);

}  // namespace stalltrace::blackbox
