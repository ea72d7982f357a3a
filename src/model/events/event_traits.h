// SPDX-License-Identifier: Apache-2.0
// Properties of an event type besides its fields: its table, its key, and the start and end of a row's interval. Each
// family header (collective.h, tcp.h, ...) has the structs, their EventTraits and the list of its types; event_types.h
// joins the lists. All sources, writers and readers use that list.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "model/time_range.h"

namespace stalltrace {

/// How a table holds the rows of a type.
enum class TableKind : uint8_t {
  kState,     // existing things: few rows, read completely; a row replaces the one with the same key
  kEvents,    // streamed in time order; the primary key is the row's own event_id
  kNumbered,  // streamed in time order; the writer numbers the rows in a column `id`
};

/// For each event type T:
///   kTable             the table's name in a recording
///   kKind              how the table holds its rows
///   begin_ns(row)      start of the row's interval
///   end_ns(row)        end of the row's interval, kForever while it is open. The row belongs to a TimeRange if
///                      begin_ns < to_ns and end_ns >= from_ns.
///   known_until_ns(row)  the newest time that the row reports, never kForever: the end, or the last observation of
///                      an open row. A live window uses it to forget rows.
///   key(row)           only if a later row can replace an earlier one: a comparable tuple or value
/// Types derive from StateTraits or StreamTraits and override what differs.
template <typename T>
struct EventTraits;

/// `from` and `to` are the start and end of existence; `to` is none while it exists.
template <typename T>
struct StateTraits {
  static constexpr TableKind kKind = TableKind::kState;
  static constexpr int64_t end_or_forever(const std::optional<int64_t>& to) { return to.value_or(kForever); }
};

/// A row with a `duration_ns` ends that long after its timestamp; if that field is optional and missing, the row is
/// open. Any other row is a point in time.
template <typename T, TableKind kind>
struct StreamTraits {
  static constexpr TableKind kKind = kind;

  static int64_t begin_ns(const T& row) { return row.timestamp_ns; }
  static int64_t end_ns(const T& row) {
    if constexpr (requires { row.duration_ns.has_value(); }) {
      return row.duration_ns ? row.timestamp_ns + *row.duration_ns : kForever;
    } else if constexpr (requires { row.duration_ns; }) {
      return row.timestamp_ns + row.duration_ns;
    } else {
      return row.timestamp_ns;
    }
  }
  static int64_t known_until_ns(const T& row) {
    const int64_t end = EventTraits<T>::end_ns(row);
    return end == kForever ? row.timestamp_ns : end;
  }
};

template <typename... T>
struct TypeList {};

template <typename... A, typename... B>
consteval TypeList<A..., B...> operator+(TypeList<A...> /*a*/, TypeList<B...> /*b*/) {
  return {};
}

}  // namespace stalltrace
