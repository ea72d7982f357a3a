// SPDX-License-Identifier: Apache-2.0
// Entry of a profiler file's communicator table → row. Pure.
#pragma once

#include <optional>

#include "blackbox/decode/values.h"
#include "model/events.h"

namespace stalltrace::blackbox {

/// `comm_ptr` is the communicator's serial number in the file. nullopt for an entry without a valid time.
std::optional<Communicator> decode_communicator(const st_box_communicator& entry, const Owner& owner);

}  // namespace stalltrace::blackbox
