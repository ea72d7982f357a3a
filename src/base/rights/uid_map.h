// SPDX-License-Identifier: Apache-2.0
// Which users of the host a user namespace has (user_namespaces(7), /proc/PID/uid_map).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace stalltrace {

struct UidRange {
  int64_t inside = 0;   // first id
  int64_t outside = 0;  // first id
  int64_t count = 0;
};

/// Lines that are none are left out.
std::vector<UidRange> parse_uid_map(std::string_view text);

}  // namespace stalltrace
