// SPDX-License-Identifier: Apache-2.0
#include "analysis/profiles/job_view.h"

#include <limits>
#include <utility>

#include "analysis/profiles/recorded_range.h"

namespace stalltrace::analysis {

JobView::JobView(std::unique_ptr<CommonNames> names, std::unique_ptr<NodeFilter> measured, Cluster cluster,
                 Timeline timeline, Flows flows)
    : names_(std::move(names)),
      measured_(std::move(measured)),
      cluster_(std::move(cluster)),
      timeline_(std::move(timeline)),
      flows_(std::move(flows)),
      range_(recorded_range(cluster_, timeline_)) {}

Result<std::unique_ptr<JobView>> JobView::load(EventSource& recorded) {
  ST_ASSIGN(CommonNames read, CommonNames::read(recorded));
  auto names = std::make_unique<CommonNames>(std::move(read));  // its address must last: it may be the source itself
  ST_ASSIGN(std::set<NodeId> logged, nodes_without_durations(names->source()));
  std::unique_ptr<NodeFilter> measured;
  if (!logged.empty()) {
    measured = std::make_unique<NodeFilter>(names->source(), std::move(logged), NodeFilter::Keep::kOthers);
  }
  EventSource& source = measured ? *measured : names->source();
  ST_ASSIGN(Cluster cluster, Cluster::load(source));
  ST_ASSIGN(Timeline timeline, Timeline::load(source, cluster));
  ST_TRY(find_end(source, cluster, timeline));
  ST_ASSIGN(Flows flows, Flows::load(source, cluster));
  return std::unique_ptr<JobView>(
      new JobView(std::move(names), std::move(measured), std::move(cluster), std::move(timeline), std::move(flows)));
}

TimeRange JobView::on_any_clock(TimeRange range) const {
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
  const int64_t margin_ns = cluster_.clock().largest_shift_ns();
  return {range.from_ns < kFirst + margin_ns ? kFirst : range.from_ns - margin_ns,
          range.to_ns > kForever - margin_ns ? kForever : range.to_ns + margin_ns};
}

}  // namespace stalltrace::analysis
