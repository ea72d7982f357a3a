// SPDX-License-Identifier: Apache-2.0
// Two snapshots of a host's ranks → which jobs hang, and the findings: who is to blame, by which evidence. Pure: no
// clock, no kernel. What two snapshots do not show is `unknown`, with the missing evidence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autopsy/snapshot.h"
#include "model/finding.h"

namespace stalltrace::autopsy {

struct Context {
  std::string node;           // name of this host
  int64_t utc_offset_ns = 0;  // UTC minus CLOCK_MONOTONIC
  Traced traced;
};

enum class JobState : uint8_t {
  kProgresses,   // data flow between the ranks, or calls end
  kNoRankWaits,  // no rank waits for another as far as this host shows
  kNotKnown,     // the same, but not every rank here could be read
  kHangs,        // with findings
};
/// "progresses", "nobody_waits", "not_known", "hangs"
std::string_view to_text(JobState state);

struct JobVerdict {
  std::string job;
  int64_t ranks = 0;  // processes on this host
  JobState state = JobState::kNoRankWaits;
  std::string text;                // the verdict in a sentence
  std::vector<Finding> findings;   // with kHangs; a rank that is stopped or dead is one also without a wait
  std::vector<std::string> notes;  // limits of the verdict
};

/// One verdict per job, by name. `snapshots` are in order of time, at least two; only the first and the last are
/// compared.
std::vector<JobVerdict> judge(const std::vector<Snapshot>& snapshots, const Context& context);

}  // namespace stalltrace::autopsy
