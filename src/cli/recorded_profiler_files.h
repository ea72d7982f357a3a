// SPDX-License-Identifier: Apache-2.0
// Profiler files → a recording in a file: what `import` does, and `run` where it may not trace.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "cli/framework/console.h"
#include "cli/privacy.h"

namespace stalltrace::cli {

/// Makes the recording `out`, which must not exist; leaves none behind on failure. Prints what it holds and which files
/// were left out.
Status record_profiler_files(std::span<const std::string> files, const std::string& out, const Privacy& privacy,
                             Console& console);

}  // namespace stalltrace::cli
