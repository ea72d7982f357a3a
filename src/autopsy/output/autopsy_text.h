// SPDX-License-Identifier: Apache-2.0
// The snapshots of jobs as text and as JSON (docs/autopsy.md). The findings are printed by others (report/).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "autopsy/judge/judge.h"
#include "autopsy/snapshot.h"

namespace stalltrace::autopsy {

/// The ranks of one job, where each is, and the sockets between them that are not idle. Printable; lines with newlines.
std::string job_text(const Snapshot& last, const JobVerdict& verdict);

/// Each rank with its call and its sockets.
nlohmann::ordered_json ranks_json(const Snapshot& snapshot);

}  // namespace stalltrace::autopsy
