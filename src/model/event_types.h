// SPDX-License-Identifier: Apache-2.0
// The list of all event types. Code that handles every type iterates over this list. A new type is its struct and
// traits in a header of events/, an entry in that header's list, its columns (store/schema/columns.h) and the SQL of
// its table (store/schema/schema.cpp).
#pragma once

#include <concepts>
#include <tuple>
#include <variant>

#include "model/events/benchmark.h"
#include "model/events/collective.h"
#include "model/events/host.h"
#include "model/events/imported/packet_capture.h"
#include "model/events/imported/trace_profile.h"
#include "model/events/job.h"
#include "model/events/log.h"
#include "model/events/profiler.h"
#include "model/events/python.h"
#include "model/events/scheduler.h"
#include "model/events/tcp.h"

namespace stalltrace {

/// Read completely: see TableKind::kState.
inline constexpr auto kStateTypes = kJobTypes + kConnectionTypes + kCompetitorTypes + kGraphTypes + kBenchmarkRunTypes +
                                    kTraceProfileTypes + kPacketFlowTypes;
/// Streamed in time order.
inline constexpr auto kStreamedTypes = kCollectiveTypes + kTcpTypes + kSchedulerTypes + kProfilerTypes + kPythonTypes +
                                       kHostTypes + kLogTypes + kBenchmarkResultTypes + kTraceStepTypes +
                                       kPacketEventTypes;
inline constexpr auto kEventTypes = kStateTypes + kStreamedTypes;

template <typename T>
concept EventType = requires {
  EventTraits<T>::kTable;
};
template <typename T>
concept StateType = EventType<T> && EventTraits<T>::kKind == TableKind::kState;
template <typename T>
concept StreamedType = EventType<T> && EventTraits<T>::kKind != TableKind::kState;
/// A later row replaces an earlier row with the same key.
template <typename T>
concept KeyedType = EventType<T> && requires(const T& row) {
  EventTraits<T>::key(row);
};

template <typename... T>
consteval bool all_state(TypeList<T...> /*types*/) {
  return (StateType<T> && ...);
}
template <typename... T>
consteval bool all_streamed(TypeList<T...> /*types*/) {
  return (StreamedType<T> && ...);
}
static_assert(all_state(kStateTypes) && all_streamed(kStreamedTypes));

/// Calls f.operator()<T>() for every type of the list, in its order.
template <typename... T, typename F>
constexpr void for_each_type(TypeList<T...> /*types*/, F&& f) {
  (f.template operator()<T>(), ...);
}

/// A tuple (or variant) with a Column<T> for every type of the list.
template <template <typename...> typename Outer, template <typename> typename Column, typename... T>
Outer<Column<T>...> apply_to_types(TypeList<T...> types);
template <template <typename...> typename Outer, template <typename> typename Column, auto types>
using ForTypes = decltype(apply_to_types<Outer, Column>(types));

/// True if the row belongs to the range: it began before the range's end and had not ended before the range's start.
template <StreamedType T>
bool belongs_to(const T& row, TimeRange range) {
  return EventTraits<T>::begin_ns(row) < range.to_ns && EventTraits<T>::end_ns(row) >= range.from_ns;
}

template <typename T>
using Itself = T;
/// One row of any type. Its special members are not inline: each file that passes rows would compile those of all
/// types.
class Event : public ForTypes<std::variant, Itself, kEventTypes> {
 public:
  template <EventType T>
  Event(T row)
      : variant(std::in_place_type<T>, std::move(row)) {}  // NOLINT(google-explicit-constructor): a row is an event
  Event(const Event& other);
  Event(Event&& other) noexcept;
  Event& operator=(const Event& other);
  Event& operator=(Event&& other) noexcept;
  ~Event();
};

}  // namespace stalltrace
