// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/shift/moved_evidence.h"

#include <type_traits>

namespace stalltrace::lab {
namespace {

/// Both ends of all of time stay where they are.
int64_t moved_time(int64_t time_ns, int64_t by_ns) {
  int64_t moved_ns = 0;
  return time_ns == kForever || __builtin_add_overflow(time_ns, by_ns, &moved_ns) ? time_ns : moved_ns;
}

template <typename T>
inline constexpr bool kIsMoved = !std::is_same_v<T, Collective> && !std::is_same_v<T, ClockReading>;

}  // namespace

Status MovedEvidence::read_state(AnyRows rows) { return source_.read_state(rows); }

Status MovedEvidence::read_stream(TimeRange range, AnyVisitor visitor) {
  return std::visit(
      [&]<typename T>(const Visitor<T>* visit) -> Status {
        if constexpr (kIsMoved<T>) {
          const TimeRange recorded = {moved_time(range.from_ns, -by_ns_), moved_time(range.to_ns, -by_ns_)};
          const Visitor<T> move_and_visit = [&](const T& row) {
            T moved = row;
            moved.timestamp_ns += by_ns_;
            (*visit)(moved);
          };
          return source_.read_stream(recorded, &move_and_visit);
        } else {
          return source_.read_stream(range, visit);
        }
      },
      visitor);
}

}  // namespace stalltrace::lab
