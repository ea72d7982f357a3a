// SPDX-License-Identifier: Apache-2.0
#include "store/write/zone_map.h"

#include <algorithm>

namespace stalltrace::store {

void ZoneMap::add(int64_t id, int64_t start_ns, int64_t end_ns) {
  const bool newest = segments_.empty() || id >= segments_.back().first_id;
  const bool beyond = segments_.empty() || id > last_id_;  // false: a row was replaced, which starts no segment
  last_id_ = beyond ? id : last_id_;
  if (segments_.empty() || (beyond && segments_.back().rows >= kRows)) {
    segments_.push_back({.first_id = segments_.empty() ? first_id_of(node_) : id,
                         .min_ns = start_ns,
                         .end_ns = end_ns,
                         .rows = 1,
                         .changed = false});
    mark_changed(segments_.size() - 1);
    return;
  }
  auto found = std::prev(segments_.end());
  if (!newest) {
    found = std::upper_bound(segments_.begin(), segments_.end(), id,
                             [](int64_t wanted, const Segment& segment) { return wanted < segment.first_id; });
    found = found == segments_.begin() ? found : std::prev(found);
  }
  found->min_ns = std::min(found->min_ns, start_ns);
  found->end_ns = std::max(found->end_ns, end_ns);
  found->rows += newest ? 1 : 0;
  mark_changed(static_cast<size_t>(found - segments_.begin()));
}

void ZoneMap::mark_changed(size_t index) {
  if (!segments_[index].changed) {
    segments_[index].changed = true;
    changed_.push_back(index);
  }
}

void ZoneMap::mark_all_changed() {
  for (size_t i = 0; i < segments_.size(); ++i) {
    mark_changed(i);
  }
}

int64_t ZoneMap::end_id(size_t index) const {
  return index + 1 < segments_.size() ? segments_[index + 1].first_id : end_id_of(node_);
}

int ZoneMap::store(Statement& upsert, std::string_view source) {
  int code = SQLITE_DONE;
  for (const size_t index : changed_) {
    Segment& segment = segments_[index];
    segment.changed = false;
    upsert.bind(1, source);
    upsert.bind(2, segment.first_id);
    upsert.bind(3, static_cast<int64_t>(node_));
    upsert.bind(4, segment.min_ns);
    if (segment.end_ns == kForever) {
      sqlite3_bind_null(upsert.get(), 5);
    } else {
      upsert.bind(5, segment.end_ns);
    }
    upsert.bind(6, segment.rows);
    code = upsert.step();
    upsert.reset();
    if (code != SQLITE_DONE) {
      break;
    }
  }
  changed_.clear();
  return code;
}

}  // namespace stalltrace::store
