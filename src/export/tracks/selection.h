// SPDX-License-Identifier: Apache-2.0
// Which part of a recording is exported: times and ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "export/tracks/common_clock.h"
#include "model/source.h"

namespace stalltrace::trace_export {

class Selection {
 public:
  /// `ranges` on the common clock, in any order; without any, nothing is selected. Without `ranks`, all are.
  Selection(std::vector<TimeRange> ranges, std::span<const int32_t> ranks, const CommonClock& clock);

  /// True if an interval of the common clock overlaps a selected one. `end_ns`: kForever if it has not ended.
  [[nodiscard]] bool has(int64_t begin_ns, int64_t end_ns) const;
  [[nodiscard]] bool has_rank(std::optional<int32_t> rank) const;
  [[nodiscard]] bool all_ranks() const { return ranks_.empty(); }
  [[nodiscard]] const std::vector<int32_t>& ranks() const { return ranks_; }

  /// Visits the selected rows of a table, each once.
  template <StreamedType T>
  Status each(EventSource& source, const EventSource::Visitor<T>& visit) const {
    for (size_t i = 0; i < read_.size(); ++i) {
      ST_TRY(source.stream<T>(read_[i], [&](const T& row) {
        const int64_t begin = EventTraits<T>::begin_ns(row);
        const bool read_before = i > 0 && begin < read_[i - 1].to_ns;
        if (!read_before && has(clock_.at(row.node_id, begin), clock_.at(row.node_id, EventTraits<T>::end_ns(row)))) {
          visit(row);
        }
      }));
    }
    return {};
  }

 private:
  const CommonClock& clock_;
  std::vector<TimeRange> ranges_;  // disjoint, ascending
  std::vector<TimeRange> read_;    // the same in any node's own time: wider, disjoint, ascending
  std::vector<int32_t> ranks_;     // sorted, each once
};

}  // namespace stalltrace::trace_export
