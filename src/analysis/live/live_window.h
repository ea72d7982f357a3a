// SPDX-License-Identifier: Apache-2.0
// The newest events of a running trace as an EventSource, in bounded memory: rows older than the window are removed,
// and so are the oldest rows beyond a type's limit. The time around the start of a hang can be kept for as long as the
// hang lasts. Single-threaded.
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

inline constexpr int64_t kLiveWindowNs = 30 * kNsPerSecond;

struct WindowLimits {
  int64_t length_ns = kLiveWindowNs;
  size_t rows = 50'000;   // per streamed type
  size_t states = 8'192;  // per state type except nodes: processes, communicators, connections, stacks, ...
};

/// Delivers the same rows as a recording of these events would, if they are in the window. One difference: a node's end
/// is the current time, the last time at which it was observed.
class LiveWindow final : public EventSource, public EventSink {
 public:
  explicit LiveWindow(WindowLimits limits = {}) : limits_(limits) {}

  /// Replaces the row with the same key, if the type has one. O(1); O(log rows) for a replaced collective.
  void accept(Event event) override;
  /// Advances to the current time of the trace and forgets rows before the window.
  void advance(int64_t now_ns);
  /// Keeps rows that began in these ranges even after the window has passed them.
  void pin(std::vector<TimeRange> ranges) { pinned_ = std::move(ranges); }

  [[nodiscard]] int64_t from_ns() const { return now_ns_ - limits_.length_ns; }
  [[nodiscard]] bool has_collectives() const { return !std::get<Stream<Collective>>(streams_).empty(); }
  /// True if a launcher started ranks of a job with several ranks.
  [[nodiscard]] bool has_ranks() const;
  /// The processes (node, pid) that called collectives, for as long as their rows are held.
  [[nodiscard]] const std::set<std::pair<NodeId, int32_t>>& called() const { return called_; }
  /// Number of rows of all types.
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
  [[nodiscard]] bool is_pinned(int64_t time_ns) const;
  template <StreamedType T>
  [[nodiscard]] bool is_open_set_up(const T& row) const;
  void forget_states();

  WindowLimits limits_;
  int64_t now_ns_ = 0;
  int64_t swept_ns_ = 0;
  std::vector<TimeRange> pinned_;
  std::set<std::pair<NodeId, int32_t>> called_;
  ForTypes<std::tuple, States, kStateTypes> states_;
  ForTypes<std::tuple, Stream, kStreamedTypes> streams_;  // collectives by id: ids are given in order of entry
};

}  // namespace stalltrace::analysis
