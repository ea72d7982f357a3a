// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace stalltrace {

/// Whether it is the number of an address that leads to this host alone: 127.0.0.0/8, ::1 in any spelling, and
/// ::ffff:127.0.0.0/104. A name is none.
bool is_loopback(const std::string& number);

}  // namespace stalltrace
