// SPDX-License-Identifier: Apache-2.0
#include "model/events/ids.h"

#include <fmt/format.h>

#include <charconv>

#include "base/hash.h"

namespace stalltrace {
namespace {

/// Parses a number; fails unless it is all of `text`.
template <typename Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(number) : std::nullopt;
}

}  // namespace

NodeId make_node_id(std::string_view name, std::string_view boot_id, int64_t started_ns) {
  const uint64_t hash =
      splitmix64_fold(splitmix64_text(boot_id, splitmix64_text(name)), static_cast<uint64_t>(started_ns));
  const auto id = static_cast<NodeId>(hash >> (64 - kNodeIdBits));
  return id == 0 ? 1 : id;
}

std::string format_event_id(EventId id) { return fmt::format("{}:{}", node_of(id), number_of(id)); }

std::optional<EventId> parse_event_id(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  const auto node = whole_number<NodeId>(text.substr(0, colon));
  const auto number = whole_number<uint64_t>(text.substr(colon + 1));
  if (!node || !number || *node >> kNodeIdBits != 0 || *number >> kEventNumberBits != 0) {
    return std::nullopt;
  }
  return make_event_id(*node, *number);
}

std::string format_hash(uint64_t hash) { return fmt::format("0x{:016x}", hash); }

}  // namespace stalltrace
