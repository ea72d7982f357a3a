// SPDX-License-Identifier: Apache-2.0
#include "store/write/open_calls.h"

#include <algorithm>

namespace stalltrace::store {

void OpenCalls::note(const Collective& row) {
  if (row.settled_ns()) {
    calls_.erase(row.event_id);
  } else if (calls_.size() < kMost) {
    calls_.insert_or_assign(row.event_id, OpenCall{.pid = row.pid, .timestamp_ns = row.timestamp_ns});
  }
}

std::vector<OpenCall> OpenCalls::sorted() const {
  std::vector<OpenCall> calls;
  calls.reserve(calls_.size());
  for (const auto& [id, call] : calls_) {
    calls.push_back(call);
  }
  std::ranges::sort(calls);
  return calls;
}

}  // namespace stalltrace::store
