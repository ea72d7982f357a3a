// SPDX-License-Identifier: Apache-2.0
// A server's child process for tests of the network (serve --allow-preflight). It has no rights and no secret of the
// server, and starts a process for each request's tests.
#pragma once

#include <sys/types.h>

namespace stalltrace::cli {

/// Main function of the child, just after fork. `socket`: to the server, over which a byte comes once it has given up
/// its rights; then requests, and lines in answer to them (frames.h). Ends with the socket, and with `parent`.
[[noreturn]] void run_tests_helper(int socket, pid_t parent);

}  // namespace stalltrace::cli
