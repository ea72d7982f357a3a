// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock_offsets/common_ends.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/thresholds/clocks.h"
#include "base/numbers/median.h"
#include "base/numbers/robust_line.h"

namespace stalltrace::analysis {
namespace {

/// The medians of up to `most` parts of the points, which are in the order of time.
std::vector<LinePoint> medians_of_parts(const std::vector<LinePoint>& points, size_t most) {
  std::vector<LinePoint> parts;
  const size_t count = std::min(most, points.size());
  for (size_t part = 0; part < count; ++part) {
    const size_t begin = part * points.size() / count;
    const size_t end = (part + 1) * points.size() / count;
    std::vector<double> values;
    double times = 0;
    for (size_t i = begin; i < end; ++i) {
      values.push_back(points[i].value);
      times += points[i].at;
    }
    parts.push_back({times / static_cast<double>(end - begin), median(std::move(values))});
  }
  return parts;
}

}  // namespace

void CommonEnds::add(size_t slice, Difference difference) {
  if (of_slice_[slice] < kOfSlice) {
    ++of_slice_[slice];
    differences_.push_back(difference);
  }
}

std::optional<CommonEnds::Line> CommonEnds::line() const {
  if (differences_.size() < kFewestEnds) {
    return std::nullopt;
  }
  const Difference& first = differences_.front();
  std::vector<LinePoint> points;  // since the first difference
  for (const Difference& one : differences_) {
    points.push_back(
        {static_cast<double>(one.at_ns - first.at_ns), static_cast<double>(one.correction_ns - first.correction_ns)});
  }
  std::ranges::sort(points, {}, &LinePoint::at);
  double rate = median_rate(medians_of_parts(points, kSlices));
  const double length = points.back().at - points.front().at;
  if (std::abs(rate) * length < static_cast<double>(kEndsAgreeNs)) {
    rate = 0;  // no drift that these could show
  }
  AboutLine about = about_line(points, rate);
  if (median(std::move(about.distances)) > static_cast<double>(kEndsScatterNs)) {
    return std::nullopt;
  }
  return Line{.at_ns = first.at_ns, .correction_ns = first.correction_ns + std::llround(about.middle), .rate = rate};
}

}  // namespace stalltrace::analysis
