// SPDX-License-Identifier: Apache-2.0
// The events of one box by id, and which calls launched something. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_set>

#include "blackbox/format/reader.h"

namespace stalltrace::blackbox {

/// The newest state of every event of a box, by id.
class EventTable {
 public:
  struct Entry {
    st_box_event event{};
    bool open = false;
  };
  void add(const Contents& contents);
  void add(const st_box_event& event, bool open);
  /// The event is not kept, but what it says of the call that launched it counts.
  void note_launch(const st_box_event& event);
  void erase(uint64_t id);
  [[nodiscard]] const std::map<uint64_t, Entry>& entries() const { return entries_; }
  [[nodiscard]] const Entry* find(uint64_t id) const;
  /// Whether an event was added or noted that tells what the call `id` does: a COLL, P2P or CE_COLL.
  [[nodiscard]] bool has_launched(uint64_t id) const { return launchers_.contains(id); }
  /// The newest time that any of them bears, CLOCK_MONOTONIC; what lies after `now_ns` does not count.
  [[nodiscard]] uint64_t last_sign_of_life(uint64_t now_ns) const;

 private:
  std::map<uint64_t, Entry> entries_;
  std::unordered_set<uint64_t> launchers_;
};

}  // namespace stalltrace::blackbox
