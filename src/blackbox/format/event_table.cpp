// SPDX-License-Identifier: Apache-2.0
#include "blackbox/format/event_table.h"

#include <algorithm>

namespace stalltrace::blackbox {

void EventTable::add(const Contents& contents) {
  for (const st_box_event& event : contents.ended) {
    add(event, false);
  }
  for (const st_box_event& event : contents.open) {
    add(event, true);
  }
}

void EventTable::add(const st_box_event& event, bool open) {
  entries_[event.id] = {event, open};
  note_launch(event);
}

void EventTable::note_launch(const st_box_event& event) {
  const bool launched = event.type == ST_BOX_COLL || event.type == ST_BOX_P2P || event.type == ST_BOX_CE_COLL;
  if (launched && event.parent != 0) {
    launchers_.insert(event.parent);
  }
}

void EventTable::erase(uint64_t id) {
  entries_.erase(id);
  launchers_.erase(id);
}

const EventTable::Entry* EventTable::find(uint64_t id) const {
  const auto found = id == 0 ? entries_.end() : entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

uint64_t EventTable::last_sign_of_life(uint64_t now_ns) const {
  uint64_t last = 0;
  const auto hear = [&](uint64_t time_ns) { last = time_ns <= now_ns ? std::max(last, time_ns) : last; };
  for (const auto& [id, entry] : entries_) {
    hear(entry.event.start_ns);
    hear(entry.event.end_ns);
    if (entry.event.type == ST_BOX_PROXY_STEP) {
      hear(entry.event.u.proxy_step.state_since_ns);
    }
  }
  return last;
}

}  // namespace stalltrace::blackbox
