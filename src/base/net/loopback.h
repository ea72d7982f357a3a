// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace stalltrace {

/// The name by which every host calls itself, in any case of letters, and the number that we take for it.
bool is_localhost(std::string_view name);
inline constexpr const char* kLocalhostNumber = "127.0.0.1";

/// Whether it is the number of an address that leads to this host alone: 127.0.0.0/8, ::1 in any spelling, and
/// ::ffff:127.0.0.0/104. A name is none.
bool is_loopback(const std::string& number);

}  // namespace stalltrace
