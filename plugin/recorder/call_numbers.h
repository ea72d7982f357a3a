// SPDX-License-Identifier: Apache-2.0
// Which number a call of the API was given, until NCCL launches what it asked for: by then the call's event has left
// its slot. Holds the calls of a group of some thousands; the oldest are forgotten. Any thread; no locks.
#pragma once

#include <cstdint>

namespace stalltrace::plugin {

/// The call of this id is number `number` of its communicator's collectives.
void note_call(uint64_t id, uint64_t number);

/// ST_BOX_NUMBER_UNKNOWN where the call was not noted, or was forgotten.
uint64_t number_of_call(uint64_t id);

}  // namespace stalltrace::plugin
