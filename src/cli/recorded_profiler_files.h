// SPDX-License-Identifier: Apache-2.0
// Makes a recording file from profiler files, for `import`, and for `run` without the privilege to trace.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "cli/framework/console.h"
#include "cli/privacy.h"

namespace stalltrace::cli {

/// Creates the recording `out`, which must not exist; removes it on failure. Prints its content and the files that were
/// left out.
Status record_profiler_files(std::span<const std::string> files, const std::string& out, const Privacy& privacy,
                             Console& console);

}  // namespace stalltrace::cli
