// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/find_stalls.h"

#include <algorithm>
#include <set>

#include "analysis/stalls/search/absent.h"
#include "analysis/stalls/search/job_end.h"
#include "analysis/stalls/search/late.h"
#include "analysis/stalls/search/mismatch.h"
#include "analysis/stalls/search/search_state.h"
#include "analysis/stalls/search/transfer.h"

namespace stalltrace::analysis {
namespace {

/// Judges what does not depend on other instances, and lists the transfers that do.
void judge_arrivals(SearchState& search) {
  Instance instance;
  for (uint32_t group = 0; group < search.timeline.groups().size(); ++group) {
    for_each_instance(search.timeline, group, instance, [&] {
      const bool wrong_data = search.mismatches.note_ended(instance);
      judge_late_arrival(search, instance);
      judge_absence(search, instance);
      if (may_be_long_transfer(search, instance) || wrong_data) {
        search.transfers.push_back({group, instance.number});
      }
    });
  }
}

/// Judges each instance once. An instance may add another one that holds it up: the list grows during the loop.
void judge_transfers(SearchState& search) {
  for (std::vector<Interval>& windows : search.waited) {
    search.waited_sets.emplace_back(std::move(windows));
  }
  for (std::vector<Interval>& windows : search.group_waited) {
    search.group_waited_sets.emplace_back(std::move(windows));
  }
  Instance instance;
  std::set<InstanceId> done;
  for (size_t i = 0; i < search.transfers.size(); ++i) {
    const InstanceId id = search.transfers[i];
    if (done.insert(id).second && read_instance(search.timeline, id.group, id.number, instance)) {
      judge_transfer(search, instance);
    }
  }
}

}  // namespace

StallSearch find_stalls(const Timeline& timeline, const Cluster& cluster, const JobEnds& ends,
                        const StallSearchOptions& options) {
  SearchState search(timeline, cluster, ends, options);
  judge_arrivals(search);
  judge_hanging_mismatches(search);
  judge_transfers(search);
  judge_job_ends(search);
  bound_stalls(search);
  std::vector<Stall>& stalls = search.result.stalls;
  std::sort(stalls.begin(), stalls.end(),
            [](const Stall& a, const Stall& b) { return a.window.from_ns < b.window.from_ns; });
  return std::move(search.result);
}

}  // namespace stalltrace::analysis
