// SPDX-License-Identifier: Apache-2.0
// Makes a recording of logs, dumps and profiler files, for `import`.
#pragma once

#include <span>
#include <string>

#include "cli/evidence/inputs.h"
#include "cli/framework/console.h"
#include "cli/privacy.h"

namespace stalltrace::cli {

/// Creates the recording `out`, which must not exist; removes it on failure. Prints its content and what was left out.
/// `answers`: of NCCL's RAS, beside the files.
Status record_evidence(const Inputs& inputs, const SortedInputs& sorted, std::span<const import::RasAnswer> answers,
                       const std::string& out, const Privacy& privacy, Console& console);

}  // namespace stalltrace::cli
