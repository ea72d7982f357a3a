// SPDX-License-Identifier: Apache-2.0
// Lines through points of which some are far off. Pure.
#pragma once

#include <span>
#include <vector>

namespace stalltrace {

struct LinePoint {
  double at = 0;
  double value = 0;
};

/// The median of the rates between each two points (the estimator of Theil and Sen); 0 if no two differ in `at`.
/// Quadratic in the number of points.
double median_rate(std::span<const LinePoint> points);

/// How points lie about lines of one rate.
struct AboutLine {
  double middle = 0;              // the value at 0 of the line that half of the points are above
  std::vector<double> distances;  // of each point from that line, in the order of the points
};
AboutLine about_line(std::span<const LinePoint> points, double rate);

}  // namespace stalltrace
