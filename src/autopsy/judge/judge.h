// SPDX-License-Identifier: Apache-2.0
// Two snapshots of a host's ranks, or of several hosts' → which jobs hang, and the findings: who is to blame, by which
// evidence. Pure: no clock, no kernel. What two snapshots do not show is `unknown`, with the missing evidence.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "autopsy/snapshot.h"
#include "model/finding.h"

namespace stalltrace::autopsy {

/// When one of several hosts was looked at, on the clock of the snapshots, and its addresses.
struct HostView {
  int64_t first_ns = 0;
  int64_t last_ns = 0;
  std::vector<std::string> addresses;
};

struct Context {
  int64_t utc_offset_ns = 0;              // UTC minus the clock of the snapshots
  std::map<std::string, Traced> traced;   // of each host that was looked at, by its name
  std::map<std::string, HostView> views;  // the same hosts; empty: one host, and the snapshots have its times
  std::set<std::string> not_joined;       // jobs of which another host may show ranks under another name
  std::vector<RasAccount> ras;            // in order of time
};

enum class JobState : uint8_t {
  kProgresses,   // data flow between the ranks, or calls end
  kNoRankWaits,  // no rank waits for another as far as the snapshots show
  kNotKnown,     // the same, but not every rank could be read
  kEnded,        // none of its processes is left
  kHangs,        // with findings
};
/// "progresses", "nobody_waits", "not_known", "ended", "hangs"
std::string_view to_text(JobState state);

struct JobVerdict {
  std::string job;
  int64_t ranks = 0;  // processes in the snapshots
  JobState state = JobState::kNoRankWaits;
  std::string text;                // the verdict in a sentence
  std::vector<Finding> findings;   // with kHangs; a rank that is stopped is one also without a wait
  std::vector<std::string> notes;  // limits of the verdict
};

/// One verdict per job, by name. `snapshots` are in order of time, at least two; only the first and the last are
/// compared.
std::vector<JobVerdict> judge(const std::vector<Snapshot>& snapshots, const Context& context);

}  // namespace stalltrace::autopsy
