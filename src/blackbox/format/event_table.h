// SPDX-License-Identifier: Apache-2.0
// One profiler file's events by id, with the calls that launched something. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_set>

#include "blackbox/format/reader.h"

namespace stalltrace::blackbox {

/// The newest state of every event, by id.
class EventTable {
 public:
  struct Entry {
    st_box_event event{};
    bool open = false;
  };
  void add(const ProfilerFileContents& contents);
  void add(const st_box_event& event, bool open);
  /// Records the call that launched the event; the event itself is not kept.
  void note_launch(const st_box_event& event);
  void erase(uint64_t id);
  [[nodiscard]] const std::map<uint64_t, Entry>& entries() const { return entries_; }
  [[nodiscard]] const Entry* find(uint64_t id) const;
  /// Whether API call `id` launched a COLL, P2P or CE_COLL that was added or noted.
  [[nodiscard]] bool has_launched(uint64_t id) const { return launchers_.contains(id); }

 private:
  std::map<uint64_t, Entry> entries_;
  std::unordered_set<uint64_t> launchers_;
};

}  // namespace stalltrace::blackbox
