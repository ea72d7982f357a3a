// SPDX-License-Identifier: Apache-2.0
// The program that makes collectives through the job's library (plugin/collectives), which travels inside this binary.
// Any thread.
#pragma once

#include <string_view>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

/// The file, byte for byte.
std::string_view collectives_program();

/// It as a file in memory that can be executed by /proc/self/fd/N, also where no folder allows that. Closed on exec;
/// its number is kFirstDescriptor or higher, so that the child's own can be below. Errors: the kernel refuses.
Result<UniqueFd> open_collectives_program();
inline constexpr int kFirstDescriptor = 10;

}  // namespace stalltrace
