// SPDX-License-Identifier: Apache-2.0
// What `trace --live` prints when a finding comes, gets worse, comes back and goes.
#pragma once

#include <cstdint>
#include <string>

#include "model/finding.h"
#include "report/report_text.h"

namespace stalltrace::report {

enum class LiveHeadline : uint8_t { kBegan, kWorsened, kCameBack, kEnded };

/// Some lines, each with its newline; `now_ns` is UTC. `number` is the finding's in this trace; `explained_by` that of
/// the finding which accounts for the time of one that ended, 0 for none.
std::string live_finding_to_text(LiveHeadline headline, int64_t now_ns, int64_t number, const Finding& finding,
                                 int64_t explained_by, const TextOptions& options);

}  // namespace stalltrace::report
