// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/baseline.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "analysis/stalls/lasting_change.h"
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

namespace {

/// The value that the share `q` of them is below. Changes their order.
int64_t quantile_ns(std::vector<uint32_t>& values, double q) {
  const auto at = values.begin() + static_cast<int64_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return static_cast<int64_t>(*at) * kNsPerUs;
}

Baseline baseline_of(std::vector<uint32_t> values, int64_t floor_ns) {
  Baseline baseline{.usual_ns = quantile_ns(values, kBaselineQuantile), .known = true};
  const auto scatter_ns = static_cast<double>(baseline.usual_ns - quantile_ns(values, kScatterQuantile));
  baseline.scatter_ns = std::max(floor_ns, static_cast<int64_t>(kScatterFactor * scatter_ns));
  const auto half_ns = static_cast<int64_t>(kBaselineFactor * static_cast<double>(baseline.usual_ns));
  baseline.limit_ns = baseline.usual_ns + std::max(baseline.scatter_ns, half_ns);
  return baseline;
}

int64_t middle_ns(std::span<const uint32_t> values) {
  return static_cast<int64_t>(median(std::vector<uint32_t>(values.begin(), values.end()))) * kNsPerUs;
}

/// Of the values before they became longer at once and for good, by so much that it is no drift.
std::optional<Baseline> baseline_before_change(std::span<const uint32_t> values) {
  values = values.subspan(std::min(values.size(), kSlowFirstDurations));
  const size_t before = shorter_before(values).value_or(0);
  if (before < kFewestBeforeALastingChange) {
    return std::nullopt;
  }
  const std::span<const uint32_t> later = values.subspan(before);
  const Baseline baseline = baseline_of({values.begin(), later.begin()}, kLastingChangeFloorNs);
  std::vector<uint32_t> after(later.begin(), later.end());
  const int64_t after_ns = quantile_ns(after, kBaselineQuantile);
  const auto share_ns = static_cast<int64_t>(kLastingChangeShare * static_cast<double>(baseline.usual_ns));
  const int64_t jump_ns = middle_ns(later.first(std::min(later.size(), kFewestBeforeALastingChange))) -
                          middle_ns(values.first(before).last(kFewestBeforeALastingChange));
  const bool longer = after_ns > baseline.usual_ns + std::max(baseline.scatter_ns, share_ns);
  return longer && 2 * jump_ns > after_ns - baseline.usual_ns ? std::optional(baseline) : std::nullopt;
}

}  // namespace

Baseline Baseline::of_all(const BaselineSample& sample, int64_t at_least, int64_t floor_ns) {
  Baseline baseline;
  if (sample.count() >= at_least) {
    baseline = baseline_of(sample.values_us_, floor_ns);
  }
  baseline.count = sample.count();
  return baseline;
}

Baseline Baseline::of(const BaselineSample& sample, int64_t at_least) {
  std::optional<Baseline> before = sample.count() < at_least ? std::nullopt : baseline_before_change(sample.values_us_);
  if (!before) {
    return of_all(sample, at_least);
  }
  before->count = sample.count();
  return *before;
}

}  // namespace stalltrace::analysis
