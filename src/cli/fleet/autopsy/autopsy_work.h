// SPDX-License-Identifier: Apache-2.0
// An autopsy of a server's own host, for a client (POST /v1/autopsy).
#pragma once

#include "cli/fleet/helper/helper_work.h"

namespace stalltrace::cli {

/// Looks at the jobs of this host as the request (serve::to_json) has it, with the rights of the server's start. The
/// answer's line is the evidence (autopsy_evidence_line), or {"no_job": true}.
const HelperWork& autopsy_work();

}  // namespace stalltrace::cli
