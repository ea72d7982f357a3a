// SPDX-License-Identifier: Apache-2.0
// How a recording is recognised without a database library: the first bytes of an SQLite file.
#pragma once

#include <string_view>

namespace stalltrace {

/// Section 1.3.1 of SQLite's file format.
inline constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};

}  // namespace stalltrace
