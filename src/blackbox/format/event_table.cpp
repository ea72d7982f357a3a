// SPDX-License-Identifier: Apache-2.0
#include "blackbox/format/event_table.h"

namespace stalltrace::blackbox {

void EventTable::add(const ProfilerFileContents& contents) {
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

}  // namespace stalltrace::blackbox
