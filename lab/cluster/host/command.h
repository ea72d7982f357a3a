// SPDX-License-Identifier: Apache-2.0
// Running the system's tools (ip, nft) as a person would, with errors worth reading.
#pragma once

#include <string>
#include <vector>

#include "base/process/subprocess.h"
#include "base/result.h"

namespace stalltrace::lab {

/// Runs a tool to its end (at most 20 s) and returns what it printed. Exit other than 0 is an error that holds the
/// command and the tool's own first line.
Result<std::string> run_command(const std::vector<std::string>& argv);

/// Root and the tools are there; otherwise the one line that says what is missing.
Status check_privilege_and_tools();

}  // namespace stalltrace::lab
