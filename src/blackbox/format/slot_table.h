// SPDX-License-Identifier: Apache-2.0
// A value for the newest event in each slot of one profiler file. An event's id names its slot and grows with each
// event in it: until a slot gets a newer event, records of its event may come again. Pure; one thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "plugin/wire/blackbox.h"

namespace stalltrace::blackbox {

/// Grows to the highest slot seen: the plugin makes 16,384 slots, an id can name 65,536.
template <typename Value>
class SlotTable {
 public:
  struct Entry {
    uint64_t id = 0;
    Value value{};
  };
  /// Null where the slot holds another event's value or none.
  Value* find(uint64_t id) {
    const size_t slot = slot_of(id);
    return slot < entries_.size() && entries_[slot].id == id ? &entries_[slot].value : nullptr;
  }
  /// Returns the entry that the table drops: that of an older event, or this one where the slot has a newer event.
  std::optional<Entry> put(uint64_t id, Value value) {
    const size_t slot = slot_of(id);
    if (slot >= entries_.size()) {
      grow(std::bit_ceil(slot + 1));
    }
    Entry& entry = entries_[slot];
    const bool was_empty = slot_of(entry.id) != slot;
    Entry other{id, std::move(value)};
    if (was_empty || entry.id <= id) {
      std::swap(entry, other);
    }
    return was_empty || other.id == entry.id ? std::nullopt : std::optional(std::move(other));
  }

 private:
  static size_t slot_of(uint64_t id) { return id & ST_BOX_ID_SLOT_MASK; }
  void grow(size_t size) {
    for (size_t slot = entries_.size(); slot < size; ++slot) {
      entries_.push_back({.id = ~uint64_t{slot}});  // no event of this slot has that id
    }
  }

  std::vector<Entry> entries_;  // by slot
};

}  // namespace stalltrace::blackbox
