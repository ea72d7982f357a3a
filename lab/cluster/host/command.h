// SPDX-License-Identifier: Apache-2.0
// Runs the system's tools (ip, nft) with readable errors.
#pragma once

#include <string>
#include <vector>

#include "base/process/subprocess.h"
#include "base/result.h"

namespace stalltrace::lab {

/// Runs a tool to its end (at most 20 s) and returns its output. A nonzero exit is an error with the command and the
/// first line of the tool's message.
Result<std::string> run_command(const std::vector<std::string>& argv);

/// Root and the tools are available; otherwise one line with what is missing.
Status check_privilege_and_tools();

}  // namespace stalltrace::lab
