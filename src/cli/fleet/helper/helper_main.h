// SPDX-License-Identifier: Apache-2.0
// A server's child process that works for its clients (serve --allow-preflight, --allow-autopsy). It has no secret of
// the server, and starts a process for each request.
#pragma once

#include <sys/types.h>

#include "cli/fleet/helper/helper_work.h"

namespace stalltrace::cli {

/// Main function of the child, just after fork. `socket`: to the server, over which a byte comes once it has the rights
/// that it is to have; then requests, and lines in answer to them (frames.h). Ends with the socket, and with `parent`.
[[noreturn]] void run_helper(const HelperWork& work, int socket, pid_t parent);

}  // namespace stalltrace::cli
