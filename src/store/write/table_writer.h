// SPDX-License-Identifier: Apache-2.0
// The writer of one table: its buffer, its statement and, for streamed tables, its zone maps. Internal to store/.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "store/schema/bind.h"
#include "store/schema/table.h"
#include "store/write/zone_map.h"

namespace stalltrace::store {

/// The slots of buffered rows by key, for tables that hold states.
template <typename T>
struct Newest {
  struct Slots {
    void clear() {}
  };
};
template <typename T>
requires(!StreamedType<T>) struct Newest<T> {
  using Slots = std::map<decltype(EventTraits<T>::key(std::declval<const T&>())), size_t>;
};

template <typename T>
class TableWriter {
 public:
  Status prepare(Database& db) {
    ST_ASSIGN(insert_, db.prepare(insert_sql<T>()));
    return {};
  }

  /// False where it replaces a buffered row of the same key: of a state only the newest is written.
  bool accept(T row) {
    if constexpr (std::is_same_v<T, Collective>) {
      // A call's end mostly follows its entry within the same flush: only one row is written. If both were, writing
      // calls would take 1.43 times the CPU time (bench_recording with both rows, 2026-11-23, 11 paired rounds, 1.35
      // to 1.59). Kept although that is below 1.5: these are twelve lines, and the disk takes half the writes as well.
      size_t& slot = recent_[static_cast<uint64_t>(row.event_id) % recent_.size()];
      if (slot < rows_.size() && rows_[slot].event_id == row.event_id) {
        rows_[slot] = std::move(row);
        return true;
      }
      slot = rows_.size();
    } else if constexpr (!StreamedType<T>) {
      const auto [known, fresh] = newest_.try_emplace(EventTraits<T>::key(row), rows_.size());
      if (!fresh) {
        rows_[known->second] = std::move(row);
        return false;
      }
    }
    rows_.push_back(std::move(row));
    return true;
  }

  /// Writes the buffer inside the caller's transaction and keeps it. Returns SQLITE_DONE or the error's code.
  int write(Statement& upsert_segment) {
    int code = SQLITE_DONE;
    for (const T& row : rows_) {
      if constexpr (StreamedType<T>) {
        code = write_streamed(row);
      } else {
        code = step(row, 1);
      }
      if (code != SQLITE_DONE) {
        return code;
      }
    }
    for (ZoneMap& list : zone_maps_) {
      code = list.store(upsert_segment, EventTraits<T>::kTable);
      if (code != SQLITE_DONE) {
        return code;
      }
    }
    return code;
  }

  void rolled_back() {
    for (ZoneMap& list : zone_maps_) {
      list.mark_all_changed();
    }
  }
  void clear() {
    rows_.clear();
    newest_.clear();
  }
  /// Drops the oldest rows beyond `keep` and returns their number.
  size_t drop_oldest(size_t keep) {
    const size_t excess = rows_.size() > keep ? rows_.size() - keep : 0;
    rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(excess));
    if constexpr (!StreamedType<T>) {
      if (excess > 0) {
        newest_.clear();
        for (size_t slot = 0; slot < rows_.size(); ++slot) {
          newest_[EventTraits<T>::key(rows_[slot])] = slot;
        }
      }
    }
    return excess;
  }

  [[nodiscard]] const std::vector<T>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<ZoneMap>& zone_maps() const { return zone_maps_; }

 private:
  static constexpr size_t kRecent = std::is_same_v<T, Collective> ? 4096 : 0;

  int write_streamed(const T& row) {
    ZoneMap& list = zone_map_of(row.node_id);
    if constexpr (EventTraits<T>::kKind == TableKind::kEvents) {
      list.add(row.event_id, row.timestamp_ns, EventTraits<T>::end_ns(row));
      return step(row, 1);
    } else {
      const EventId id = make_event_id(row.node_id, ++last_number_);
      list.add(id, row.timestamp_ns, EventTraits<T>::end_ns(row));
      insert_.bind(1, id);
      return step(row, 2);
    }
  }

  int step(const T& row, int first_parameter) {
    each_column(row, Binder(insert_.get(), first_parameter));
    const int code = insert_.step();
    insert_.reset();
    return code;
  }

  ZoneMap& zone_map_of(NodeId node) {
    const auto found =
        std::find_if(zone_maps_.begin(), zone_maps_.end(), [&](const ZoneMap& list) { return list.node() == node; });
    return found != zone_maps_.end() ? *found : zone_maps_.emplace_back(node);
  }

  Statement insert_;
  std::vector<T> rows_;
  typename Newest<T>::Slots newest_;
  std::vector<ZoneMap> zone_maps_;  // one per node; a tracer writes only one
  uint64_t last_number_ = 0;
  std::array<size_t, kRecent> recent_{};
};

}  // namespace stalltrace::store
