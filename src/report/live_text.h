// SPDX-License-Identifier: Apache-2.0
// The text that `trace --live` prints when a finding begins, gets worse, resumes or ends.
#pragma once

#include <cstdint>
#include <string>

#include "model/finding.h"
#include "report/report_text.h"

namespace stalltrace::report {

enum class LiveHeadline : uint8_t { kBegan, kWorsened, kCameBack, kEnded };

/// Several lines, each with its newline; `now_ns` is UTC. `number` is the finding's number in this trace;
/// `explained_by` is the number of the finding that accounts for the time of one that ended, 0 for none.
std::string live_finding_to_text(LiveHeadline headline, int64_t now_ns, int64_t number, const Finding& finding,
                                 int64_t explained_by, const TextOptions& options);

}  // namespace stalltrace::report
