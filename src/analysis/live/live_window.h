// SPDX-License-Identifier: Apache-2.0
// The newest events of a running trace as an EventSource, in bounded memory however long the trace lasts: what is older
// than the window goes, and so does what exceeds a type's bound, oldest first. The time around the begin of a hang can
// be kept for as long as the hang lasts. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "model/source.h"

namespace stalltrace::analysis {

struct WindowLimits {
  int64_t length_ns = 30 * kNsPerSecond;
  size_t rows = 50'000;   // of each streamed type
  size_t states = 8'192;  // of each state type but nodes: processes, communicators, connections, stacks, ...
};

/// Delivers the rows that a recording of the same events would, of those that are in the window. One difference: a node
/// counts as ended now, since nobody has observed it any later.
class LiveWindow final : public EventSource, public EventSink {
 public:
  explicit LiveWindow(WindowLimits limits = {}) : limits_(limits) {}

  /// Replaces the row with the same key, where the type has one. O(1), for a collective that is replaced O(log rows).
  void accept(Event event) override;
  /// The trace has come so far: forgets what lies before the window.
  void advance(int64_t now_ns);
  /// Keeps rows that began in these ranges although the window has passed them.
  void hold(std::vector<TimeRange> ranges) { held_ = std::move(ranges); }

  [[nodiscard]] int64_t from_ns() const { return now_ns_ - limits_.length_ns; }
  [[nodiscard]] bool has_collectives() const { return !std::get<Stream<Collective>>(streams_).empty(); }
  /// A launcher started ranks of a job of several.
  [[nodiscard]] bool has_ranks() const;
  /// The processes that called collectives, by node and pid, for as long as their rows are here.
  [[nodiscard]] const std::set<std::pair<NodeId, int32_t>>& called() const { return called_; }
  /// Rows of all types.
  [[nodiscard]] size_t rows() const;

  Status read_state(AnyRows rows) override;
  Status read_stream(TimeRange range, AnyVisitor visitor) override;

 private:
  template <typename T>
  using States = std::map<decltype(EventTraits<T>::key(std::declval<const T&>())), T>;
  template <typename T>
  using Stream = std::deque<T>;

  template <StateType T>
  void add(T row);
  template <StreamedType T>
  void add(T row);
  void add(Collective row);
  [[nodiscard]] bool is_held(int64_t time_ns) const;
  template <StreamedType T>
  [[nodiscard]] bool is_open_set_up(const T& row) const;
  void forget_states();

  WindowLimits limits_;
  int64_t now_ns_ = 0;
  int64_t swept_ns_ = 0;
  std::vector<TimeRange> held_;
  std::set<std::pair<NodeId, int32_t>> called_;
  ForTypes<std::tuple, States, kStateTypes> states_;
  ForTypes<std::tuple, Stream, kStreamedTypes> streams_;  // collectives by id: ids are given in order of entry
};

}  // namespace stalltrace::analysis
