// SPDX-License-Identifier: Apache-2.0
// Counts of packets dropped inside this host → rows of `packet_drop`.
#pragma once

#include <cstdint>
#include <string>

#include "model/events.h"
#include "wire/host_drops.h"

namespace stalltrace::capture {

PacketDrop decode_drops(const st_drop_key& key, const st_drops& sum, std::string reason, NodeId node,
                        int64_t utc_offset_ns);

}  // namespace stalltrace::capture
