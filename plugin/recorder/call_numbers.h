// SPDX-License-Identifier: Apache-2.0
// The numbers given to API calls, until NCCL launches their collectives: by then the call's event has left its slot.
// Holds the calls of a group of some thousands; the oldest are dropped. Any thread; no locks.
#pragma once

#include <cstdint>

namespace stalltrace::plugin {

/// Stores that the call with this id is number `number` of its communicator's collectives.
void note_call(uint64_t id, uint64_t number);

/// ST_BOX_NUMBER_UNKNOWN if the call was not noted, or was dropped.
uint64_t number_of_call(uint64_t id);

}  // namespace stalltrace::plugin
