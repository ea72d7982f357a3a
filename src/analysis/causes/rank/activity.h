// SPDX-License-Identifier: Apache-2.0
// What a rank was doing outside of collectives, from its threads' scheduler states.
#pragma once

#include <string_view>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

struct Activity {
  bool known = false;     // there is scheduler evidence of this rank
  int64_t window_ns = 0;  // the time that the others are parts of
  int64_t on_cpu_ns = 0;
  int64_t disk_ns = 0;
  int64_t blocked_ns = 0;
};

/// The thread whose doings make a rank late: the one that calls, or, where that only waited for most of `window` to be
/// given work (a pool's thread, as in PyTorch), the process's first.
int32_t working_tid(const AnalysisContext& context, MemberIndex member, Interval window, int32_t calling_tid);

/// Of the busiest thread for the CPU, of the working thread (0: any) for what it waited for.
Activity activity_of(const AnalysisContext& context, MemberIndex member, Interval window, int32_t calling_tid);

/// "computing", "waiting for disk", "sleeping or waiting for something else"
std::string_view doing(const Activity& activity);
/// Stalls that belong to a job's beginning: those of its first instances are short, and the later ones stay below the
/// gate.
bool is_settling(const AnalysisContext& context, const CauseGroup& group, const Gate& gate);
Evidence activity_evidence(const AnalysisContext& context, MemberIndex member, const Activity& activity);

}  // namespace stalltrace::analysis
