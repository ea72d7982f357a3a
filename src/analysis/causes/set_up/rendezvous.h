// SPDX-License-Identifier: Apache-2.0
// Why a launched job was not set up: its ranks did not meet. The rules use processes, their variables and their
// connection attempts; no call of a collective library is needed.
#pragma once

#include <optional>
#include <vector>

#include "analysis/causes/set_up/launched_jobs.h"
#include "analysis/causes/set_up/stuck_calls.h"
#include "analysis/causes/set_up/unreached.h"
#include "base/result.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// The known facts about one job's set-up.
struct SetUp {
  const LaunchedJob* job = nullptr;
  std::vector<StuckCall> stuck;     // calls of its ranks
  bool made_communicators = false;  // a set-up call of one of its ranks succeeded
  Reach reach;                      // connections of its ranks
  Interval seen{0, 0};              // from its first process's start to its last observation
};

/// Selects the job's part of `stuck` and `reach`.
SetUp set_up_of(const Cluster& cluster, const Timeline& timeline, const LaunchedJob& job,
                const std::vector<StuckCall>& stuck, const Reach& reach);

/// None if nothing failed and no rank waits for long. Ranks that the finding names are added to the cluster.
std::optional<Finding> rendezvous_failure(Cluster& cluster, const SetUp& set_up);

}  // namespace stalltrace::analysis
