// SPDX-License-Identifier: Apache-2.0
// What the test of collectives means. Pure.
#pragma once

#include <vector>

#include "preflight/host_check.h"
#include "preflight/peers/launch.h"

namespace stalltrace::preflight {

/// Failures of libraries and of results, ranks that did not end, and a bandwidth far below that of the network. Empty
/// where no collective was asked for.
std::vector<HostCheck> judge_collectives(const LaunchResults& results);

}  // namespace stalltrace::preflight
