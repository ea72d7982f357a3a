// SPDX-License-Identifier: Apache-2.0
// What rules see of a job, for tests of one rule.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "analysis/causes/cause.h"
#include "analysis/testing/small_job.h"

namespace stalltrace::analysis::small_job {

struct LoadedJob {
  /// `examined`: the times that evidence is read for; none: the whole recording.
  explicit LoadedJob(MemorySource rows, std::vector<Examined> examined = {})
      : source(std::move(rows)),
        cluster(*Cluster::load(source)),
        timeline(*Timeline::load(source, cluster)),
        flows(*Flows::load(source, cluster)),
        evidence(*EvidenceStore::load(source, cluster, flows,
                                      examined.empty()
                                          ? std::vector<Examined>{{.window = {kOriginNs, kOriginNs + kRecordedNs}}}
                                          : std::move(examined))),
        ends(JobEnds::find(timeline, cluster, flows)),
        settling(timeline),
        raised(*RaisedExceptions::load(source, cluster)) {}
  LoadedJob(const LoadedJob&) = delete;
  LoadedJob& operator=(const LoadedJob&) = delete;

  [[nodiscard]] AnalysisContext context() const { return {cluster, timeline, flows, evidence, ends, settling, raised}; }

  MemorySource source;
  Cluster cluster;
  Timeline timeline;
  Flows flows;
  EvidenceStore evidence;
  JobEnds ends;
  Settling settling;
  RaisedExceptions raised;
};

/// A transfer of all ranks that was slow for all of `window`.
inline Stall slow_transfer(const LoadedJob& job, Interval window) {
  Stall stall{.number = 50, .window = window, .lost_ns = window.length()};
  stall.verdict.part = StallPart::kTransfer;
  stall.kind = SlowTransfer{};
  for (MemberIndex member = 0; member < job.cluster.members().size(); ++member) {
    stall.members.push_back(member);
  }
  return stall;
}

/// The stalls, which have to outlive it, as one group.
inline CauseGroup group_of(const LoadedJob& job, Cause cause, FaultLocation location,
                           const std::vector<const Stall*>& stalls) {
  CauseGroup group{.cause = cause, .location = std::move(location), .stalls = stalls};
  count_cost(job.context(), group);
  return group;
}

}  // namespace stalltrace::analysis::small_job
