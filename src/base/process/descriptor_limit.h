// SPDX-License-Identifier: Apache-2.0
// The limit of this process's open files.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace stalltrace {

/// Raises the soft limit (RLIMIT_NOFILE) to `files`, if it is lower, as far as the hard limit allows. Fails where the
/// hard limit is lower: "WHAT need 8064 open files, the limit is 4096". The limit applies to the whole process and is
/// inherited by its children.
Status allow_open_files(size_t files, std::string_view what, std::string_view other_remedy);

/// For callers that work with fewer as well: raises the soft limit as far as the hard one allows, and returns it.
size_t raise_open_files(size_t files);

}  // namespace stalltrace
