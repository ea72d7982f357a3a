// SPDX-License-Identifier: Apache-2.0
// The result of `stalltrace autopsy`, of this host or of several, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "autopsy/hosts/host_result.h"
#include "autopsy/judge/judge.h"
#include "autopsy/snapshot.h"

namespace stalltrace::cli {

struct AutopsyResult {
  std::vector<autopsy::Snapshot> snapshots;  // the first and the last
  autopsy::Context context;                  // of the host, or of all hosts that were looked at
  std::vector<autopsy::JobVerdict> verdicts;
};

/// A block of lines for each job.
std::string autopsy_to_text(const AutopsyResult& result, bool colour);

/// docs/autopsy.md. Of one host also the evidence that other hosts' is joined with.
std::string autopsy_to_json(const AutopsyResult& result);

}  // namespace stalltrace::cli
