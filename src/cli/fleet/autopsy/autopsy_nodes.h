// SPDX-License-Identifier: Apache-2.0
// `stalltrace autopsy --nodes`: the servers of all nodes look at their hosts at the same time, and what they saw is
// judged together here.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/evidence/autopsy_output.h"
#include "cli/fleet/node_flags.h"
#include "cli/framework/console.h"
#include "serve/requests/autopsy_request.h"

namespace stalltrace::cli {

/// Nodes that fail are named, and their ranks are not seen. Gives up rights before it connects; `out`: the file that
/// the caller writes afterwards. Errors: no node answers, or not all with --require-all; no job runs on any
/// (kNotFound).
Result<AutopsyResult> look_at_nodes(Console& console, const NodeFlags& flags, const serve::AutopsyRequest& request,
                                    const std::string& out);

}  // namespace stalltrace::cli
