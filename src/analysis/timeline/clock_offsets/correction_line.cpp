// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock_offsets/correction_line.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

#include "analysis/thresholds/clocks.h"
#include "base/numbers/robust_line.h"

namespace stalltrace::analysis {
namespace {

constexpr double kRateOfPpm = 1e-6;
/// Farther bounds leave no double that holds a nanosecond.
constexpr int64_t kMostLeanNs = int64_t{1} << 52;
/// Of sums of doubles; times are whole nanoseconds.
constexpr double kRoundingNs = 0.01;
constexpr int kHalvings = 40;

}  // namespace

void CorrectionBounds::at_least(int64_t correction_ns, int64_t at_ns, bool last) {
  if (correction_ns > low_ns || (last && correction_ns == low_ns)) {
    low_ns = correction_ns;
    low_at_ns = at_ns;
  }
}

void CorrectionBounds::at_most(int64_t correction_ns, int64_t at_ns, bool last) {
  if (correction_ns < high_ns || (last && correction_ns == high_ns)) {
    high_ns = correction_ns;
    high_at_ns = at_ns;
  }
}

CorrectionFit::CorrectionFit(std::span<const CorrectionBounds> bounds, const CorrectionRange& always, TimeRange range)
    : origin_ns_(range.from_ns + range.length() / 2), all_(always) {
  for (const CorrectionBounds& one : bounds) {
    all_.low_ns = std::max(all_.low_ns, one.low_ns);
    all_.high_ns = std::min(all_.high_ns, one.high_ns);
  }
  base_ns_ = all_.low_ns + (all_.high_ns - all_.low_ns) / 2;
  add_limits(bounds, always, range);
  line_ = {.at_ns = origin_ns_, .correction_ns = base_ns_};
  Rates rates = up_to(kClockDriftPpm);
  line_.fits = find_lines(rates, 0);
  if (!line_.fits) {
    rates = up_to(kMostDriftPpm);
    line_.fits = find_lines(rates, 0);
  }
  const double violation_ns = line_.fits ? 0 : find_least_violation();
  const double from = since(range.from_ns);
  const double to = since(range.length() > 0 ? range.to_ns - 1 : range.from_ns);
  line_ = choose(from, to, rates);
  if (!line_.fits) {
    const auto within = farthest_ns(from, to, kClockDriftPpm);
    const auto within_most = within ? within : farthest_ns(from, to, kMostDriftPpm);
    line_.error_ns = std::llround(violation_ns + (within_most ? *within_most : farthest_bound_ns()));
  }
  follow_sides(from, to);
  limits_ = {};
}

/// Of the lines between corners_. The error covers all of these.
CorrectionLine CorrectionFit::choose(double from_ns, double to_ns, const Rates& rates) const {
  CorrectionLine line{.at_ns = origin_ns_, .correction_ns = base_ns_, .fits = line_.fits};
  const Band first = band(from_ns);
  const Band last = band(to_ns);
  // How far a line is from what fits is convex over time: it is farthest at one of the ends.
  if (to_ns > from_ns && (all_.low_ns > all_.high_ns || !rates.contain(0))) {
    const double begin = (first.low + first.high) / 2;
    line.rate = ((last.low + last.high) / 2 - begin) / (to_ns - from_ns);
    line.correction_ns = base_ns_ + std::llround(begin - line.rate * from_ns);
    line.error_ns = std::llround(std::max(first.high - first.low, last.high - last.low) / 2);
  } else {
    line.error_ns = std::llround(std::max({-first.low, first.high, -last.low, last.high}));
  }
  return line;
}

/// While a rank of one host is always late, all bounds of one side are loose, and those of the other lie along the
/// clock's line: at another rate, the shortest transfers would have to become longer or shorter all the time, by just
/// the difference. So do loose ones if the rank is always late by as much. If it is late by more and more, the two
/// sides contradict each other. Loose bounds have room for lines that are less steep than the clock's: that those fit
/// says nothing against a rate that both sides show.
void CorrectionFit::follow_sides(double from_ns, double to_ns) {
  const auto low = side(-1, to_ns - from_ns);
  const auto high = side(1, to_ns - from_ns);
  if (!low || !high) {
    return;  // nothing contradicts what one side alone shows
  }
  if (std::abs(low->rate - high->rate) > kSidesAgree * std::max(low->uncertainty, high->uncertainty)) {
    return;
  }
  Rates rates = up_to(kMostDriftPpm);
  double scatter_of_low_ns = 0;
  double scatter_of_high_ns = 0;
  for (const Side& one : {*low, *high}) {
    if (one.rate - one.uncertainty > rates.low) {
      rates.low = one.rate - one.uncertainty;
      scatter_of_low_ns = one.scatter_ns;
    }
    if (one.rate + one.uncertainty < rates.high) {
      rates.high = one.rate + one.uncertainty;
      scatter_of_high_ns = one.scatter_ns;
    }
  }
  const double wander_ns = kWanderFactor * std::max(scatter_of_low_ns, scatter_of_high_ns);
  std::vector<Line> all = corners_;
  if (rates.low <= rates.high && find_lines(rates, wander_ns)) {
    CorrectionLine line = choose(from_ns, to_ns, rates);
    line.error_ns += std::llround(wander_ns);
    if (line.error_ns < line_.error_ns || !rates.contain(line_.rate)) {
      line_ = line;
      wander_ns_ = wander_ns;
      return;
    }
  }
  corners_ = std::move(all);
}

/// None if too few slices have such a bound, or they cover less than half of the time.
std::optional<CorrectionFit::Side> CorrectionFit::side(double sign, double length_ns) const {
  std::vector<LinePoint> points;
  for (const Limit& limit : std::span(limits_).first(slice_limits_)) {
    if (limit.sign == sign) {
      points.push_back({limit.since_ns, limit.limit});
    }
  }
  if (points.size() < kSideSlices) {
    return std::nullopt;
  }
  std::ranges::sort(points, {}, &LinePoint::at);
  // Twice the time of the middle half: a few that are far from the others count for nothing.
  const double covered_ns = 2 * (points[points.size() * 3 / 4].at - points[points.size() / 4].at);
  if (length_ns <= 0 || covered_ns < length_ns / 2) {
    return std::nullopt;
  }
  const double rate = median_rate(points);
  std::vector<double> distances = about_line(points, rate).distances;
  const auto scatter =
      distances.begin() + static_cast<ptrdiff_t>(kScatterShare * static_cast<double>(distances.size()));
  std::ranges::nth_element(distances, scatter);
  const double apart_ns = std::max(kRateScatters * *scatter, static_cast<double>(kSteadyGrowthNs));
  return Side{.rate = rate, .uncertainty = apart_ns / std::min(covered_ns, length_ns), .scatter_ns = *scatter};
}

/// The origin is as near as possible to all of them, so that rates are multiplied by small numbers.
void CorrectionFit::add_limits(std::span<const CorrectionBounds> bounds, const CorrectionRange& always,
                               TimeRange range) {
  constexpr CorrectionRange kNone;
  const auto at_least = [&](int64_t correction_ns, int64_t at_ns) {
    if (correction_ns != kNone.low_ns) {
      limits_.push_back({since(at_ns), static_cast<double>(correction_ns - base_ns_), -1});
    }
  };
  const auto at_most = [&](int64_t correction_ns, int64_t at_ns) {
    if (correction_ns != kNone.high_ns) {
      limits_.push_back({since(at_ns), static_cast<double>(correction_ns - base_ns_), 1});
    }
  };
  for (const CorrectionBounds& one : bounds) {
    at_least(one.low_ns, one.low_at_ns);
    at_most(one.high_ns, one.high_at_ns);
  }
  slice_limits_ = limits_.size();
  const int64_t last_ns = range.length() > 0 ? range.to_ns - 1 : range.from_ns;
  for (const int64_t at_ns : {range.from_ns, last_ns}) {
    at_least(always.low_ns, at_ns);
    at_most(always.high_ns, at_ns);
  }
}

CorrectionFit::Rates CorrectionFit::up_to(int64_t ppm) {
  const double most = static_cast<double>(ppm) * kRateOfPpm;
  return {-most, most};
}

/// Sets corners_; false if there is no such line.
bool CorrectionFit::find_lines(const Rates& rates, double slack_ns) {
  const double most = std::max(std::abs(rates.low), std::abs(rates.high));
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  for (const Limit& limit : limits_) {  // what each of them lets a line be at the origin, if it is as steep as may be
    const double reach = std::abs(limit.since_ns) * most + slack_ns + kRoundingNs;
    if (limit.sign < 0) {
      low = std::max(low, limit.limit - reach);
    } else {
      high = std::min(high, limit.limit + reach);
    }
  }
  corners_.clear();
  if (low > high) {
    return false;
  }
  corners_ = {{low, rates.low}, {high, rates.low}, {high, rates.high}, {low, rates.high}};
  for (const Limit& limit : limits_) {
    cut(limit, slack_ns);
  }
  return !corners_.empty();
}

/// Cuts off the part of the polygon that violates the limit.
void CorrectionFit::cut(const Limit& limit, double slack_ns) {
  const auto excess = [&](const Line& line) {
    return limit.sign * (line.value + line.rate * limit.since_ns - limit.limit) - slack_ns;
  };
  kept_.clear();
  for (size_t i = 0; i < corners_.size(); ++i) {
    const Line& here = corners_[i];
    const Line& next = corners_[(i + 1) % corners_.size()];
    const double here_excess = excess(here);
    const double next_excess = excess(next);
    if (here_excess <= kRoundingNs) {
      kept_.push_back(here);
    }
    if ((here_excess <= kRoundingNs) != (next_excess <= kRoundingNs)) {
      const double share = std::clamp(here_excess / (here_excess - next_excess), 0.0, 1.0);
      kept_.push_back({here.value + share * (next.value - here.value), here.rate + share * (next.rate - here.rate)});
    }
  }
  std::swap(corners_, kept_);
}

/// By how much the bounds have to be widened until a line fits. Leaves those that then do.
double CorrectionFit::find_least_violation() {
  const Rates rates = up_to(kMostDriftPpm);
  double enough = std::max(static_cast<double>(all_.low_ns - all_.high_ns), 0.0) / 2 + 1;  // one for all times fits
  double too_little = 0;
  for (int i = 0; i < kHalvings && enough - too_little > 1; ++i) {
    const double between = (enough + too_little) / 2;
    (find_lines(rates, between) ? enough : too_little) = between;
  }
  if (!find_lines(rates, enough)) {
    corners_ = {{0, 0}};
  }
  return enough;
}

CorrectionFit::Band CorrectionFit::band(double since_ns) const {
  Band band{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (const Line& line : corners_) {
    const double value = line.value + line.rate * since_ns;
    band.low = std::min(band.low, value);
    band.high = std::max(band.high, value);
  }
  return band;
}

/// The clock did not go along a line, but at no time faster than this: each bound also bounds the times around it, so
/// that a loose one matters no more than its neighbours let it. None if the bounds contradict that.
std::optional<double> CorrectionFit::farthest_ns(double from_ns, double to_ns, int64_t most_ppm) const {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  const double most = up_to(most_ppm).high;
  std::vector<Limit> points = limits_;
  std::ranges::sort(points, {}, &Limit::since_ns);
  for (const double sign : {-1.0, 1.0}) {
    const auto narrow = [&](double& reached, double& at_ns, Limit& point) {
      reached += sign * most * std::abs(point.since_ns - at_ns);
      at_ns = point.since_ns;
      if (point.sign == sign) {
        point.limit = reached = sign * std::min(sign * reached, sign * point.limit);
      }
      return point.sign == sign || sign * (point.limit - reached) <= kRoundingNs;
    };
    double reached = sign * kFar;
    double at_ns = from_ns;
    bool agree = true;
    for (Limit& point : points) {
      agree = narrow(reached, at_ns, point) && agree;
    }
    reached = sign * kFar;
    for (auto point = points.rbegin(); point != points.rend(); ++point) {
      agree = narrow(reached, at_ns, *point) && agree;
    }
    if (!agree) {
      return std::nullopt;
    }
  }
  double farthest = 0;
  const auto reach_to = [&](double since_ns, double value) {
    const double own = static_cast<double>(line_.correction_ns - base_ns_) + line_.rate * since_ns;
    farthest = std::max(farthest, std::abs(value - own));
  };
  const double slice_ns = (to_ns - from_ns) / static_cast<double>(kClockSlices);
  const auto reach_to_end = [&](const Limit& nearest, double end_ns) {
    if (const double gap_ns = std::abs(nearest.since_ns - end_ns); gap_ns > slice_ns) {
      reach_to(end_ns, nearest.limit + nearest.sign * most * gap_ns);
    }
  };
  for (const double sign : {-1.0, 1.0}) {
    const Limit* before = nullptr;
    for (const Limit& point : points) {
      if (point.sign != sign) {
        continue;
      }
      reach_to(point.since_ns, point.limit);
      if (before == nullptr) {
        reach_to_end(point, from_ns);
      } else if (point.since_ns - before->since_ns > 2 * slice_ns) {
        // Nothing is known between the two: it may have gone away and come back.
        const double between = (point.since_ns + before->since_ns + sign * (point.limit - before->limit) / most) / 2;
        reach_to(between, before->limit + sign * most * (between - before->since_ns));
      }
      before = &point;
    }
    if (before != nullptr) {
      reach_to_end(*before, to_ns);
    }
  }
  return farthest;
}

/// The clock was set: at no time it is known better than by the farthest bound.
double CorrectionFit::farthest_bound_ns() const {
  double farthest = 0;
  for (const Limit& limit : limits_) {
    const double own = static_cast<double>(line_.correction_ns - base_ns_) + line_.rate * limit.since_ns;
    farthest = std::max(farthest, std::abs(limit.limit - own));
  }
  return farthest;
}

CorrectionLine CorrectionFit::leaning_to(const CommonEnds::Line& wanted, TimeRange range, int64_t most_ns) const {
  if (!line_.fits || std::abs(wanted.correction_ns - base_ns_) > kMostLeanNs) {
    return line_;
  }
  const double value = static_cast<double>(wanted.correction_ns - base_ns_) - wanted.rate * since(wanted.at_ns);
  const int64_t length_ns = range.length() > 0 ? range.length() - 1 : 0;
  double farthest = 0;
  constexpr int64_t kParts = CommonEnds::kSlices;
  for (int64_t part = 0; part <= kParts; ++part) {
    const double since_ns = since(range.from_ns) + static_cast<double>(length_ns) * static_cast<double>(part) / kParts;
    const Band fits = band(since_ns);
    const double own = value + wanted.rate * since_ns;
    if (own < fits.low - wander_ns_ || own > fits.high + wander_ns_) {
      return line_;
    }
    farthest = std::max({farthest, own - fits.low, fits.high - own});
  }
  const int64_t error_ns = std::llround(farthest + wander_ns_);
  if (error_ns > most_ns && line_.error_ns <= most_ns) {
    return line_;
  }
  return {.at_ns = origin_ns_,
          .correction_ns = base_ns_ + std::llround(value),
          .rate = wanted.rate,
          .error_ns = error_ns,
          .by_ends = true};
}

CorrectionRange CorrectionFit::at(int64_t time_ns) const {
  if (!line_.fits) {
    return {line_.at(time_ns) - line_.error_ns, line_.at(time_ns) + line_.error_ns};
  }
  const Band all = band(since(time_ns));
  return {base_ns_ + std::llround(all.low - wander_ns_), base_ns_ + std::llround(all.high + wander_ns_)};
}

}  // namespace stalltrace::analysis
