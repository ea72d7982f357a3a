// SPDX-License-Identifier: Apache-2.0
#include "model/waits/wait_rows.h"

#include <algorithm>

#include "base/hash.h"

namespace stalltrace {

void WaitRows::add(const WaitSpan& row) {
  if (threads_.size() >= kMostThreads) {
    make_room();
  }
  Thread& thread = threads_[{row.node_id, row.pid, row.tid}];
  if (thread.open && thread.open->timestamp_ns != row.timestamp_ns) {
    visit_(*thread.open, row.timestamp_ns);
    thread.open.reset();
  }
  if (!row.open) {
    thread.open.reset();
    thread.ended_begin_ns = row.timestamp_ns;
    visit_(row, kForever);
  } else if (thread.ended_begin_ns != row.timestamp_ns && (!thread.open || row.window_ns > thread.open->window_ns)) {
    thread.open = row;
  }
}

size_t WaitRows::KeyHash::operator()(const Key& key) const {
  const auto [node, pid, tid] = key;
  return splitmix64_fold(static_cast<uint64_t>(node) << 32 | static_cast<uint32_t>(pid), static_cast<uint32_t>(tid));
}

/// Threads with an open wait, in the order of their keys.
std::vector<WaitRows::Key> WaitRows::open_threads() const {
  std::vector<Key> open;
  for (const auto& [key, thread] : threads_) {
    if (thread.open) {
      open.push_back(key);
    }
  }
  std::ranges::sort(open);
  return open;
}

/// Of a wait that is visited here, later rows would say more: it counts as far as it was observed.
void WaitRows::make_room() {
  std::erase_if(threads_, [](const auto& entry) { return !entry.second.open; });
  if (threads_.size() < kMostThreads) {
    return;
  }
  for (const Key& key : open_threads()) {
    const WaitSpan& open = *threads_[key].open;
    visit_(open, open.timestamp_ns + open.window_ns);
  }
  threads_.clear();
}

void WaitRows::finish() {
  for (const Key& key : open_threads()) {
    visit_(*threads_[key].open, kForever);
  }
  threads_.clear();
}

}  // namespace stalltrace
