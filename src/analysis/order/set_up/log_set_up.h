// SPDX-License-Identifier: Apache-2.0
// Set-ups that failed, by the warnings of NCCL's log.
#pragma once

#include <string>
#include <vector>

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

struct LogWarnings {
  std::vector<Finding> findings;
  std::vector<std::string> notes;  // the first warnings that no finding is about
};

/// A set-up failed if its process warned that it could not reach another rank, or found no interface, and neither set
/// up a communicator nor began a call afterwards.
Result<LogWarnings> judge_warnings(EventSource& source);

}  // namespace stalltrace::analysis
