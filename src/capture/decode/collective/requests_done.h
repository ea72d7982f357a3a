// SPDX-License-Identifier: Apache-2.0
// Splits a wait for several requests into one wait for each request that it ended.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "wire/collective.h"

namespace stalltrace::capture {

/// Calls `visit` with one st_sync for each request that the call ended, in the order of the program's array.
template <typename Visit>
void for_each_request(const st_requests_done& record, const Visit& visit) {
  const uint32_t count = std::min<uint32_t>(record.count, ST_MAX_REQUESTS);
  for (uint32_t i = 0; i < count; ++i) {
    if ((record.done >> i & 1) == 0) {
      continue;
    }
    uint64_t handle = record.handles[i];
    if (record.int_handles != 0) {
      uint32_t handles[ST_MAX_REQUESTS];
      std::memcpy(handles, record.handles, sizeof handles);
      handle = handles[i];
    }
    visit(st_sync{.header = record.header,
                  .entry_ns = record.entry_ns,
                  .event = handle,
                  .last_net_ns = record.last_net_ns,
                  .net_bytes = record.net_bytes,
                  .return_code = record.return_code,
                  .row = record.row,
                  .kind = record.kind});
  }
}

}  // namespace stalltrace::capture
