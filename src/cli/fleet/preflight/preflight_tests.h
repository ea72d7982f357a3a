// SPDX-License-Identifier: Apache-2.0
// The tests of one request to a server (POST /v1/preflight), in a process of their own.
#pragma once

#include <string>
#include <vector>

#include "cli/fleet/helper/helper_work.h"
#include "preflight/host_check.h"
#include "serve/requests/preflight_request.h"

namespace stalltrace::cli {

/// Takes part as the rank that the request (serve::to_json) names, and, as rank 0, has the others test each other.
/// Gives up rights before the tests.
const HelperWork& preflight_work();

/// The checks of the report for nodes that can't take part, each with the remedy for its reason.
std::vector<preflight::HostCheck> checks_of_missing(const std::vector<serve::PreflightRequest::Missing>& missing);

}  // namespace stalltrace::cli
