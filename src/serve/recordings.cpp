// SPDX-License-Identifier: Apache-2.0
#include "serve/recordings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "analysis/explain.h"

namespace stalltrace::serve {
namespace {

constexpr size_t kMostReports = 8;
constexpr size_t kMostInspections = 64;

std::string key_of(const std::optional<TimePoint>& point) {
  return point ? fmt::format("{}{}", point->from_start ? "+" : "", point->ns) : "";
}

}  // namespace

Result<std::shared_ptr<const Report>> Snapshot::report(const TimeWindow& window) {
  const std::string key = key_of(window.from) + ".." + key_of(window.to);
  if (const auto known = reports_.find(key); known != reports_.end()) {
    return known->second;
  }
  ST_ASSIGN(ExplainResult result, explain(source(), {.window = window}));
  ReadNotes read = read_notes();
  result.report.notes.insert(result.report.notes.begin(), read.first.begin(), read.first.end());
  std::ranges::move(read.notes, std::back_inserter(result.report.notes));
  result.report.lost_events += static_cast<uint64_t>(read.rows_left_out);
  if (reports_.size() >= kMostReports) {
    reports_.clear();
  }
  return reports_[key] = std::make_shared<const Report>(std::move(result.report));
}

Result<std::shared_ptr<const Inspection>> Snapshot::inspect(EventId call) {
  if (const auto known = inspections_.find(call); known != inspections_.end()) {
    return known->second;
  }
  ST_ASSIGN(ExplainResult result, explain(source(), {.instance = call}));
  if (!result.inspection) {
    return fail("this call's instance was not judged", "look at another call of it", ErrorKind::kNotFound);
  }
  if (inspections_.size() >= kMostInspections) {
    inspections_.clear();
  }
  return inspections_[call] = std::make_shared<const Inspection>(*std::move(result.inspection));
}

Result<analysis::JobView*> Snapshot::job() {
  if (!job_) {
    ST_ASSIGN(job_, analysis::JobView::load(source()));
  }
  return job_.get();
}

}  // namespace stalltrace::serve
