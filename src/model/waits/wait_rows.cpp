// SPDX-License-Identifier: Apache-2.0
#include "model/waits/wait_rows.h"

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

/// Of a wait that is visited here, later rows would say more: it counts as far as it was observed.
void WaitRows::make_room() {
  std::erase_if(threads_, [](const auto& entry) { return !entry.second.open; });
  if (threads_.size() < kMostThreads) {
    return;
  }
  for (const auto& [key, thread] : threads_) {
    visit_(*thread.open, thread.open->timestamp_ns + thread.open->window_ns);
  }
  threads_.clear();
}

void WaitRows::finish() {
  for (const auto& [key, thread] : threads_) {
    if (thread.open) {
      visit_(*thread.open, kForever);
    }
  }
  threads_.clear();
}

}  // namespace stalltrace
