// SPDX-License-Identifier: Apache-2.0
// The numbers that identify nodes, events and communicators, and their text forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stalltrace {

/// One agent's run on one node. Unique across a fleet: see make_node_id.
using NodeId = uint32_t;
/// node_id << 40 | number; printed as "NODE:number".
using EventId = int64_t;

inline constexpr int kEventNumberBits = 40;
inline constexpr int kNodeIdBits = 23;

constexpr EventId make_event_id(NodeId node, uint64_t number) {
  return static_cast<EventId>((static_cast<uint64_t>(node) << kEventNumberBits) | number);
}
constexpr NodeId node_of(EventId id) { return static_cast<NodeId>(static_cast<uint64_t>(id) >> kEventNumberBits); }
constexpr uint64_t number_of(EventId id) { return static_cast<uint64_t>(id) & ((1ULL << kEventNumberBits) - 1); }

/// 23 bits of a hash of the recorder's identity and start; never 0.
NodeId make_node_id(std::string_view name, std::string_view boot_id, int64_t started_ns);

/// "12:3456": the node's number and the event's. parse_event_id is the inverse; none for any other text.
std::string format_event_id(EventId id);
std::optional<EventId> parse_event_id(std::string_view text);

/// 0 means unknown: no communicator hashes to 0 in practice, and one that did would only lose its name.
using CommHash = uint64_t;

/// "0x0123456789abcdef"
std::string format_hash(uint64_t hash);

}  // namespace stalltrace
