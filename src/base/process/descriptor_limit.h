// SPDX-License-Identifier: Apache-2.0
// How many files this process may have open.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace stalltrace {

/// Raises the soft limit (RLIMIT_NOFILE) where `files` at once are more than it, as far as the hard limit allows; fails
/// where that is less: "WHAT need 8064 open files, the limit is 4096". The limit is the process's, and what it starts
/// inherits it.
Status allow_open_files(size_t files, std::string_view what, std::string_view other_remedy);

}  // namespace stalltrace
