// SPDX-License-Identifier: Apache-2.0
// The token that server and clients share.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace stalltrace::serve {

/// From the first line of `path`; without one, from the variable STALLTRACE_TOKEN; empty: there is none. Refused: a
/// token that is too short to be secret, one with spaces, and a file that others may read.
Result<std::string> load_token(const std::string& path);

}  // namespace stalltrace::serve
