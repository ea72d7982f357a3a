// SPDX-License-Identifier: Apache-2.0
// The tests of one request to a server (POST /v1/preflight), in a process of their own.
#pragma once

#include <string>
#include <vector>

#include "preflight/host_check.h"
#include "serve/http/preflight_request.h"

namespace stalltrace::cli {

/// Takes part as the rank that the request names, and, as rank 0, has the others test each other. Writes the lines of
/// the answer (answer_lines.h) to `out`; no other process writes there. Gives up rights before the tests. Returns the
/// exit code.
int make_preflight_tests(const std::string& request, int out);

/// The checks of the report for nodes that can't take part, each with the remedy for its reason.
std::vector<preflight::HostCheck> checks_of_missing(const std::vector<serve::PreflightRequest::Missing>& missing);

}  // namespace stalltrace::cli
