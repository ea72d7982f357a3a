// SPDX-License-Identifier: Apache-2.0
#include "store/write/open_calls.h"

#include <algorithm>

namespace stalltrace::store {

void OpenCalls::note(const Collective& row) {
  const auto process = calls_.find(row.pid);
  if (row.known_end_ns()) {
    if (process != calls_.end() && process->second.erase(row.event_id) > 0 && process->second.empty()) {
      calls_.erase(process);
    }
    return;
  }
  if (process == calls_.end() && calls_.size() >= kMostProcesses) {
    drop_process_called_longest_ago();
  }
  Calls& calls = calls_[row.pid];
  calls.insert_or_assign(row.event_id, row.timestamp_ns);
  if (calls.size() > kMostOfProcess) {
    calls.erase(calls.begin());
  }
}

void OpenCalls::drop_process_called_longest_ago() {
  calls_.erase(std::ranges::min_element(calls_, {}, [](const auto& entry) { return entry.second.rbegin()->first; }));
}

std::vector<OpenCall> OpenCalls::sorted() const {
  std::vector<OpenCall> calls;
  for (const auto& [pid, open] : calls_) {
    for (const auto& [id, timestamp_ns] : open) {
      calls.push_back({.pid = pid, .timestamp_ns = timestamp_ns});
    }
  }
  std::ranges::sort(calls);
  return calls;
}

}  // namespace stalltrace::store
