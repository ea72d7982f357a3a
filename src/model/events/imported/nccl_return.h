// SPDX-License-Identifier: Apache-2.0
// What NCCL prints of a function that returned an error (NCCLCHECK in src/include/checks.h), as the text of a row of
// log_line.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stalltrace {

/// The number of ncclResult_t in "misc/socket.cc:564 -> 2" and "group.cc:64 -> 2 [Async thread]"; none: the text is
/// something else, or the number is no error (7, ncclInProgress).
std::optional<int32_t> nccl_return_in(std::string_view text);

/// "system error": in the words of ncclGetErrorString.
std::string_view nccl_error_text(int32_t error);

}  // namespace stalltrace
