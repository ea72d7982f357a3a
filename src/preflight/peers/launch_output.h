// SPDX-License-Identifier: Apache-2.0
// The results of the tests between nodes, as text for a terminal of 80 columns and as JSON.
#pragma once

#include <string>

#include "preflight/peers/judge/judge.h"

namespace stalltrace::preflight {

/// A line for each pair (of many only those with a fault), a matrix of speeds, and the checks. Of more nodes than fit,
/// a cell of the matrix is a block of nodes and shows the worst of it; where all is well it is left out.
std::string launch_text(const LaunchResults& results, const Judgement& judgement);
std::string launch_json(const LaunchResults& results, const Judgement& judgement);

}  // namespace stalltrace::preflight
