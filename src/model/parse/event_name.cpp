// SPDX-License-Identifier: Apache-2.0
#include "model/parse/event_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace stalltrace {
namespace {

constexpr const char* kWhereIdsAre = "give NODE:NUMBER as query shows it (SELECT name FROM event_name)";

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// The node with this name or number.
std::optional<NodeId> node_called(const std::vector<Node>& nodes, std::string_view name) {
  const auto found = std::ranges::find_if(nodes, [&](const Node& node) { return node.name == name; });
  return found != nodes.end() ? std::optional(found->node_id) : number_in<NodeId>(name);
}

}  // namespace

Result<EventId> event_called(std::string_view text, const std::vector<Node>& nodes) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    const auto id = number_in<EventId>(text);
    if (id && node_of(*id) != 0) {
      return *id;
    }
    return fail(fmt::format("'{}' is no event id", text),
                fmt::format("give NODE:NUMBER, such as node3:1535{}", id ? " (not the collective's seq)" : ""),
                ErrorKind::kUsage);
  }
  if (const auto number = number_in<uint64_t>(text.substr(colon + 1))) {
    if (const auto node = node_called(nodes, text.substr(0, colon))) {
      return make_event_id(*node, *number);
    }
    return fail(fmt::format("no node '{}' in these recordings", text.substr(0, colon)), kWhereIdsAre,
                ErrorKind::kNotFound);
  }
  return fail(fmt::format("'{}' names no event", text), kWhereIdsAre, ErrorKind::kUsage);
}

}  // namespace stalltrace
