// SPDX-License-Identifier: Apache-2.0
// Why a job that a launcher started was not set up: its ranks did not meet. Judges processes, their variables and their
// attempts to connect; no call of a collective library need have been made.
#pragma once

#include <optional>
#include <vector>

#include "analysis/causes/set_up/launched_jobs.h"
#include "analysis/causes/set_up/stuck_calls.h"
#include "analysis/causes/set_up/unreached.h"
#include "base/result.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// What is known of one job's set-up.
struct SetUp {
  const LaunchedJob* job = nullptr;
  std::vector<StuckCall> stuck;     // of its ranks
  bool made_communicators = false;  // one of its ranks came out of a set-up call with success
  Reach reach;                      // of its ranks
  Interval seen{0, 0};              // from its first process's start to the last time it was observed
};

/// Takes the job's share of `stuck` and `reach`.
SetUp set_up_of(const Cluster& cluster, const Timeline& timeline, const LaunchedJob& job,
                const std::vector<StuckCall>& stuck, const Reach& reach);

/// None where nothing failed and nobody waits for long; ranks that are named become members of the cluster.
std::optional<Finding> rendezvous_failure(Cluster& cluster, const SetUp& set_up);

}  // namespace stalltrace::analysis
