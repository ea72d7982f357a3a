// SPDX-License-Identifier: Apache-2.0
// STALLTRACE_EVENTS: what NCCL is asked to report, and what of it becomes a record of its own.
#pragma once

#include <cstdint>

namespace stalltrace::plugin {

struct EventMask {
  uint32_t nccl_mask = 0;  // event bits
  uint32_t kept_mask = 0;  // 1 << st_box_type
  bool understood = true;  // false: an unknown name was left out
};

/// Names separated by commas, in any case; null or empty is "default". "none" asks for nothing.
EventMask parse_events(const char* text);

}  // namespace stalltrace::plugin
