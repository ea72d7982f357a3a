// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/baseline.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "analysis/thresholds/stalls.h"
#include "base/numbers/median.h"

namespace stalltrace::analysis {

void BaselineSample::add(int64_t duration_ns) {
  if (seen_++ % stride_ != 0) {
    return;
  }
  if (values_us_.size() == kCapacity) {  // keep every second value from here on
    for (size_t i = 0; i < kCapacity / 2; ++i) {
      values_us_[i] = values_us_[2 * i];
    }
    values_us_.resize(kCapacity / 2);
    stride_ *= 2;
  }
  values_us_.push_back(
      static_cast<uint32_t>(std::clamp<int64_t>(duration_ns / kNsPerUs, 0, std::numeric_limits<uint32_t>::max())));
}

Spread BaselineSample::spread() const {
  const int64_t middle_us = median(values_us_);
  std::vector<int64_t> deviations_us;
  deviations_us.reserve(values_us_.size());
  for (const uint32_t value_us : values_us_) {
    deviations_us.push_back(std::abs(value_us - middle_us));
  }
  return {middle_us * kNsPerUs, median(std::move(deviations_us)) * kNsPerUs};
}

Baseline Baseline::of(BaselineSample& sample, int64_t at_least, int64_t floor_ns) {
  Baseline baseline{.count = sample.count()};
  if (sample.count() < at_least) {
    return baseline;
  }
  std::vector<uint32_t>& values = sample.values_us_;
  const auto quantile_ns = [&](double q) {
    const auto at = values.begin() + static_cast<int64_t>(q * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), at, values.end());
    return static_cast<int64_t>(*at) * kNsPerUs;
  };
  baseline.usual_ns = quantile_ns(kBaselineQuantile);
  const auto scatter_ns = static_cast<double>(baseline.usual_ns - quantile_ns(kScatterQuantile));
  baseline.scatter_ns = std::max(floor_ns, static_cast<int64_t>(kScatterFactor * scatter_ns));
  const auto half_ns = static_cast<int64_t>(kBaselineFactor * static_cast<double>(baseline.usual_ns));
  baseline.limit_ns = baseline.usual_ns + std::max(baseline.scatter_ns, half_ns);
  baseline.known = true;
  return baseline;
}

}  // namespace stalltrace::analysis
