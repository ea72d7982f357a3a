// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/robust_line.h"

#include <cmath>
#include <utility>

#include "base/numbers/median.h"

namespace stalltrace {

double median_rate(std::span<const LinePoint> points) {
  std::vector<double> rates;
  rates.reserve(points.size() * points.size() / 2);
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (const double apart = points[i].at - points[j].at; apart != 0) {
        rates.push_back((points[i].value - points[j].value) / apart);
      }
    }
  }
  return median(std::move(rates));
}

AboutLine about_line(std::span<const LinePoint> points, double rate) {
  AboutLine about;
  for (const LinePoint& point : points) {
    about.distances.push_back(point.value - rate * point.at);
  }
  about.middle = median(about.distances);
  for (double& distance : about.distances) {
    distance = std::abs(distance - about.middle);
  }
  return about;
}

}  // namespace stalltrace
