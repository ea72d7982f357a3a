// SPDX-License-Identifier: Apache-2.0
// A rank's activity outside of collectives, from its threads' scheduler states.
#pragma once

#include <string_view>

#include "analysis/causes/cause.h"
#include "analysis/thresholds/gates.h"

namespace stalltrace::analysis {

struct Activity {
  bool known = false;     // the rank has scheduler evidence
  int64_t window_ns = 0;  // total time, of which the other fields are parts
  int64_t on_cpu_ns = 0;
  int64_t disk_ns = 0;
  int64_t blocked_ns = 0;
};

/// The thread whose activity explains a late rank: the calling thread, or, if that one mostly waited for work during
/// `window` (a pool's thread, as in PyTorch), the process's first thread.
int32_t working_tid(const AnalysisContext& context, MemberIndex member, Interval window, int32_t calling_tid);

/// CPU time of the busiest thread; waits of the working thread (0: of any).
Activity activity_of(const AnalysisContext& context, MemberIndex member, Interval window, int32_t calling_tid);

/// True if that is what doing() says.
bool is_computing(const Activity& activity);
/// "computing", "waiting for disk", "sleeping or waiting for something else"
std::string_view doing(const Activity& activity);
/// True for stalls at the beginning of a job: those in its first instances are short, and the later ones stay below the
/// gate.
bool is_settling(const AnalysisContext& context, const CauseGroup& group, const Gate& gate);
/// True for a short stall in one of its communicator's first instances.
bool is_settling(const AnalysisContext& context, const Stall& stall);
Evidence activity_evidence(const AnalysisContext& context, MemberIndex member, const Activity& activity);

}  // namespace stalltrace::analysis
