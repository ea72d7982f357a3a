// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock_offsets/common_ends.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/thresholds/clocks.h"
#include "base/numbers/median.h"

namespace stalltrace::analysis {
namespace {

/// A time and a value, both since the first difference.
struct Point {
  double at = 0;
  double value = 0;
};

/// The medians of up to `most` parts of the points, which are in the order of time.
std::vector<Point> medians_of_parts(const std::vector<Point>& points, size_t most) {
  std::vector<Point> parts;
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

/// Theil and Sen's: the median of the rates between each two of the points.
double rate_of(const std::vector<Point>& points) {
  std::vector<double> rates;
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (const double apart = points[i].at - points[j].at; apart > 0) {
        rates.push_back((points[i].value - points[j].value) / apart);
      }
    }
  }
  return rates.empty() ? 0 : median(std::move(rates));
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
  std::vector<Point> points;
  for (const Difference& one : differences_) {
    points.push_back(
        {static_cast<double>(one.at_ns - first.at_ns), static_cast<double>(one.correction_ns - first.correction_ns)});
  }
  std::ranges::sort(points, {}, &Point::at);
  double rate = rate_of(medians_of_parts(points, kSlices));
  const double length = points.back().at - points.front().at;
  if (std::abs(rate) * length < static_cast<double>(kEndsAgreeNs)) {
    rate = 0;  // no drift that these could show
  }
  std::vector<double> values;
  for (const Point& point : points) {
    values.push_back(point.value - rate * point.at);
  }
  const double middle = median(values);
  for (double& value : values) {
    value = std::abs(value - middle);
  }
  if (median(std::move(values)) > static_cast<double>(kEndsScatterNs)) {
    return std::nullopt;
  }
  return Line{.at_ns = first.at_ns, .correction_ns = first.correction_ns + std::llround(middle), .rate = rate};
}

}  // namespace stalltrace::analysis
