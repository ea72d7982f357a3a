// SPDX-License-Identifier: Apache-2.0
#include "analysis/profiles/job_view.h"

#include <limits>
#include <utility>

#include "analysis/profiles/recorded_range.h"

namespace stalltrace::analysis {

JobView::JobView(CommonNames names, Cluster cluster, Timeline timeline, Flows flows)
    : names_(std::move(names)),
      cluster_(std::move(cluster)),
      timeline_(std::move(timeline)),
      flows_(std::move(flows)),
      range_(recorded_range(cluster_, timeline_)) {}

Result<std::unique_ptr<JobView>> JobView::load(EventSource& recorded) {
  ST_ASSIGN(CommonNames names, CommonNames::read(recorded));
  ST_ASSIGN(Cluster cluster, Cluster::load(names.source()));
  ST_ASSIGN(Timeline timeline, Timeline::load(names.source(), cluster));
  ST_TRY(find_end(names.source(), cluster, timeline));
  ST_ASSIGN(Flows flows, Flows::load(names.source(), cluster));
  return std::unique_ptr<JobView>(
      new JobView(std::move(names), std::move(cluster), std::move(timeline), std::move(flows)));
}

TimeRange JobView::on_any_clock(TimeRange range) const {
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
  const int64_t margin_ns = cluster_.clock().largest_shift_ns();
  return {range.from_ns < kFirst + margin_ns ? kFirst : range.from_ns - margin_ns,
          range.to_ns > kForever - margin_ns ? kForever : range.to_ns + margin_ns};
}

}  // namespace stalltrace::analysis
