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
  std::vector<std::string> ras_problems;  // why answers of RAS are missing: also notes of the verdicts
  bool of_this_host = true;
};

/// A block of lines for each job.
std::string autopsy_to_text(const AutopsyResult& result, bool colour);

/// docs/autopsy.md. Of one host also the evidence that other hosts' is joined with.
std::string autopsy_to_json(const AutopsyResult& result);

/// Of one host: a line with the evidence alone, which autopsy::read_result reads. Without what RAS answered where that
/// is too long to be read, which is among its problems; empty: so is the rest.
std::string autopsy_evidence_line(const AutopsyResult& result);

}  // namespace stalltrace::cli
