// SPDX-License-Identifier: Apache-2.0
// STALLTRACE_EVENTS: which events NCCL is asked to report, and which become records.
#pragma once

#include <cstdint>

namespace stalltrace::plugin {

struct EventMask {
  uint32_t nccl_mask = 0;  // event bits
  uint32_t kept_mask = 0;  // 1 << st_box_type
  bool understood = true;  // false: an unknown name was left out
};

/// Parses names separated by commas, in any case; null or empty means "default". "none" requests nothing.
EventMask parse_events(const char* text);

}  // namespace stalltrace::plugin
