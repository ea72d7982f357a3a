// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock_offsets/offset_bounds.h"

#include <cstdlib>
#include <functional>
#include <queue>

#include "analysis/thresholds/clocks.h"
#include "analysis/thresholds/stalls.h"
#include "base/clock.h"

namespace stalltrace::analysis {
namespace {

CorrectionBounds negative(const CorrectionBounds& bounds) {
  CorrectionBounds turned;
  if (bounds.high_ns != turned.high_ns) {
    turned.at_least(-bounds.high_ns, bounds.high_at_ns);
  }
  if (bounds.low_ns != turned.low_ns) {
    turned.at_most(-bounds.low_ns, bounds.low_at_ns);
  }
  return turned;
}

/// By how much the lower bound exceeds the upper one.
int64_t contradiction_ns(const OffsetBounds::Range& range) {
  return range.known() ? std::max<int64_t>(range.low_ns - range.high_ns, 0) : 0;
}

/// True if the bounds contradict each other by more than drift explains, and did not do so before they were narrowed.
bool contradicts(const OffsetBounds::Range& before, const OffsetBounds::Range& narrowed, int64_t length_ns) {
  const int64_t drift_ns = length_ns / 1'000'000 * kClockDriftPpm;
  return contradiction_ns(narrowed) > contradiction_ns(before) + drift_ns + kSeenLateNs;
}

}  // namespace

void OffsetBounds::add(const std::vector<HostEdge>& edges) {
  constexpr HostEdge kNone;
  const HostEdge& reference = edges[reference_];
  for (size_t host = 0; host < edges.size(); ++host) {
    const HostEdge& other = edges[host];
    if (other.last_arrival_ns == kNone.last_arrival_ns) {
      continue;
    }
    bounds_[host].has_calls = true;
    if (reference.last_arrival_ns == kNone.last_arrival_ns) {
      continue;
    }
    // Between what the other host shows and this time its clock advances by more than it drifts: each bound holds at
    // the reference's own time, however long a rank waited.
    if (reference.first_end_ns != kNone.first_end_ns) {
      at_most(host, reference.first_end_ns - other.last_arrival_ns, reference.first_end_ns);
    }
    if (other.first_end_ns != kNone.first_end_ns) {
      at_least(host, reference.last_arrival_ns - other.first_end_ns, reference.last_arrival_ns);
    }
    const int64_t reported_ns = reference.first_reported_end_ns;
    if (host != reference_ && reported_ns != kForever && other.first_reported_end_ns != kForever) {
      ends_[host].add(slice_of(reported_ns), {reported_ns, reported_ns - other.first_reported_end_ns});
    }
  }
}

void OffsetBounds::at_most(size_t host, int64_t correction_ns, int64_t at_ns) {
  bounds_[host].high_ns = std::min(bounds_[host].high_ns, correction_ns);
  if (!slices_.empty()) {
    slices_[host * kSlices + slice_of(at_ns)].at_most(correction_ns, at_ns, is_late(at_ns));
  }
  fits_[host].reset();
}

void OffsetBounds::at_least(size_t host, int64_t correction_ns, int64_t at_ns) {
  bounds_[host].low_ns = std::max(bounds_[host].low_ns, correction_ns);
  if (!slices_.empty()) {
    slices_[host * kSlices + slice_of(at_ns)].at_least(correction_ns, at_ns, is_late(at_ns));
  }
  fits_[host].reset();
}

CorrectionBounds& OffsetBounds::Difference::slice(int64_t index) {
  constexpr auto kAll = static_cast<int64_t>(kSlices);
  index = std::clamp(index, first_index - kAll, first_index + 2 * kAll - 1);
  const auto found = std::ranges::lower_bound(slices, index, {}, &Slice::index);
  return found != slices.end() && found->index == index ? found->bounds
                                                        : slices.insert(found, {.index = index, .bounds = {}})->bounds;
}

void OffsetBounds::add_transfers(size_t sender, size_t receiver, std::span<const Transfer> transfers) {
  if (transfers.empty()) {
    return;
  }
  const auto [first, second] = std::minmax(sender, receiver);
  Difference& difference = differences_[{first, second}];
  // One clock divides both directions into slices.
  difference.timed_by = second == reference_ ? second : first;
  for (const Transfer& transfer : transfers) {
    const int64_t at_ns = difference.timed_by == sender ? transfer.begin_ns : transfer.end_ns;
    const int64_t index = index_of(at_ns);
    if (difference.slices.empty()) {
      difference.first_index = index;
    }
    CorrectionBounds& bounds = difference.slice(index);
    const bool late = index - difference.first_index >= static_cast<int64_t>(kSlices / 2);
    if (receiver == second) {
      bounds.at_least(transfer.begin_ns - transfer.end_ns, at_ns, late);
    } else {
      bounds.at_most(transfer.end_ns - transfer.begin_ns, at_ns, late);
    }
  }
}

/// A host's bounds are final when those of all hosts that are known better are: no bound comes back to a host over
/// others, which would add to a contradiction again and again.
void OffsetBounds::narrow_by_transfers() {
  if (differences_.empty() || slices_.empty()) {
    return;
  }
  std::vector<std::vector<std::pair<size_t, const Difference*>>> neighbours(hosts());
  for (const auto& [pair, difference] : differences_) {
    neighbours[pair.first].emplace_back(pair.second, &difference);
    neighbours[pair.second].emplace_back(pair.first, &difference);
  }
  using Next = std::pair<int64_t, size_t>;  // the error of a host's offset, and the host
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto put = [&](size_t host) {
    if (host == reference_) {
      next.emplace(-1, host);  // the first of all
    } else if (bounds_[host].known()) {
      next.emplace(fit(host).line().error_ns, host);
    }
  };
  for (size_t host = 0; host < hosts(); ++host) {
    put(host);
  }
  std::vector<bool> is_final(hosts());
  while (!next.empty()) {
    const size_t from = next.top().second;
    next.pop();
    if (is_final[from]) {
      continue;
    }
    is_final[from] = true;
    const CorrectionFit* known = from == reference_ ? nullptr : &fit(from);
    for (const auto& [to, difference] : neighbours[from]) {
      if (!is_final[to] && narrow_from(from, known, to, *difference)) {
        put(to);
      }
    }
  }
}

/// `known`: of the host that they come from; null for the reference. False if nothing was narrowed.
bool OffsetBounds::narrow_from(size_t from, const CorrectionFit* known, size_t to, const Difference& difference) {
  std::vector<CorrectionBounds> slices(slices_of(to).begin(), slices_of(to).end());
  Range all = bounds_[to];
  const auto clamped = [](int64_t correction_ns) { return std::clamp(correction_ns, -kMostShiftNs, kMostShiftNs); };
  // By the reference's clock, from that of one of the two; `apart_ns`: how much more `to` is to be corrected.
  const auto common_time = [&](int64_t time_ns, int64_t apart_ns) {
    const int64_t by_from_ns = time_ns + (difference.timed_by == to ? clamped(apart_ns) : 0);
    return known == nullptr ? by_from_ns
                            : by_from_ns + clamped(known->line().at(by_from_ns + clamped(known->line().correction_ns)));
  };
  const auto range_of_from = [&](int64_t at_ns) {
    constexpr Range kNone{.low_ns = 0, .high_ns = 0};
    return known == nullptr ? kNone : known->at(at_ns);
  };
  constexpr Range kNothing;
  bool narrowed = false;
  for (const Difference::Slice& slice : difference.slices) {
    const CorrectionBounds apart = from < to ? slice.bounds : negative(slice.bounds);
    if (apart.low_ns != kNothing.low_ns) {
      const int64_t at_ns = common_time(apart.low_at_ns, apart.low_ns);
      const int64_t low_ns = clamped(clamped(range_of_from(at_ns).low_ns) + clamped(apart.low_ns));
      CorrectionBounds& own = slices[slice_of(at_ns)];
      narrowed = narrowed || low_ns > own.low_ns;
      all.low_ns = std::max(all.low_ns, low_ns);
      own.at_least(low_ns, at_ns, is_late(at_ns));
    }
    if (apart.high_ns != kNothing.high_ns) {
      const int64_t at_ns = common_time(apart.high_at_ns, apart.high_ns);
      const int64_t high_ns = clamped(clamped(range_of_from(at_ns).high_ns) + clamped(apart.high_ns));
      CorrectionBounds& own = slices[slice_of(at_ns)];
      narrowed = narrowed || high_ns < own.high_ns;
      all.high_ns = std::min(all.high_ns, high_ns);
      own.at_most(high_ns, at_ns, is_late(at_ns));
    }
  }
  if (!narrowed) {
    return false;
  }
  return !contradicts_own(to, slices, all) && take(to, slices, all, ClockSource::kCollectives);
}

/// True if bounds narrower than those of the host contradict each other by more than drift explains, and its own do
/// not.
bool OffsetBounds::contradicts_own(size_t host, Slices slices, const Range& all) const {
  if (contradicts(bounds_[host], all, span_.length())) {
    return true;
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    if (contradicts(slices_of(host)[i], slices[i], span_.length() / static_cast<int64_t>(kSlices))) {
      return true;
    }
  }
  // By how much the clocks drifted is then not known.
  return contradiction_ns(all) > 0 && std::ranges::none_of(slices, &Range::known);
}

/// Has these bounds instead of its own; false if they make the error no smaller.
bool OffsetBounds::take(size_t host, Slices slices, const Range& all, ClockSource source) {
  std::optional<CorrectionFit> found;
  if (all.known()) {
    const CorrectionBounds one{all};
    found.emplace(slices.empty() ? Slices(&one, 1) : slices, measured_[host], span_);
  }
  const bool known = bounds_[host].known();
  if (source == ClockSource::kKernel && found && !found->line().fits && (!known || fit(host).line().fits)) {
    bounds_[host].doubt = KernelDoubt::kContradicts;
    return false;
  }
  if (known && found->line().error_ns >= fit(host).line().error_ns) {
    return false;
  }
  static_cast<Range&>(bounds_[host]) = all;
  bounds_[host].source = source;
  if (!slices.empty()) {
    std::ranges::copy(slices, slices_.begin() + static_cast<ptrdiff_t>(host * kSlices));
  }
  fits_[host] = std::move(found);
  return true;
}

void OffsetBounds::narrow_at(size_t host, std::span<const TimedBounds> found) {
  if (found.empty()) {
    return;
  }
  std::vector<CorrectionBounds> slices(slices_of(host).begin(), slices_of(host).end());
  Range all = bounds_[host];
  int64_t least_error_ns = kForever;
  for (const TimedBounds& one : found) {
    const int64_t last_ns = span_.length() > 0 ? span_.to_ns - 1 : span_.from_ns;
    const int64_t at_ns = std::clamp(one.at_ns, span_.from_ns, last_ns);
    const int64_t drift_ns = slices.empty() ? 0 : std::abs(one.at_ns - at_ns) / 1'000'000 * kClockDriftPpm;
    const int64_t low_ns = std::clamp(one.low_ns - drift_ns, -kMostShiftNs, kMostShiftNs);
    const int64_t high_ns = std::clamp(one.high_ns + drift_ns, -kMostShiftNs, kMostShiftNs);
    all.low_ns = std::max(all.low_ns, low_ns);
    all.high_ns = std::min(all.high_ns, high_ns);
    if (!slices.empty()) {
      CorrectionBounds& own = slices[slice_of(at_ns)];
      own.at_least(low_ns, at_ns, is_late(at_ns));
      own.at_most(high_ns, at_ns, is_late(at_ns));
    }
    least_error_ns = std::min(least_error_ns, (high_ns - low_ns) / 2);
  }
  if (contradicts_own(host, slices, all)) {
    bounds_[host].doubt = KernelDoubt::kContradicts;
    return;
  }
  if (bounds_[host].known() && fit(host).line().error_ns <= least_error_ns) {
    return;  // without the time that another line takes
  }
  take(host, slices, all, ClockSource::kKernel);
}

/// Of the slice that the time lies in: 0 to kSlices - 1 in the span, others beside it.
int64_t OffsetBounds::index_of(int64_t time_ns) const {
  if (span_.length() == 0) {
    return 0;
  }
  constexpr double kMost = 1e18;  // what an int64_t holds, with kSlices more
  const double share = static_cast<double>(time_ns - span_.from_ns) / static_cast<double>(span_.length());
  return static_cast<int64_t>(std::floor(std::clamp(share * static_cast<double>(kSlices), -kMost, kMost)));
}

const CorrectionFit& OffsetBounds::fit(size_t host) const {
  std::optional<CorrectionFit>& found = fits_[host];
  if (!found) {
    const CorrectionBounds all{bounds_[host]};
    found.emplace(slices_.empty() ? Slices(&all, 1) : slices_of(host), measured_[host], span_);
  }
  return *found;
}

CorrectionLine OffsetBounds::offset(size_t host) const {
  const auto ends = ends_[host].line();
  return ends ? fit(host).leaning_to(*ends, span_, kStallFloorNs) : fit(host).line();
}

bool OffsetBounds::narrow(size_t host, int64_t low_ns, int64_t high_ns) {
  Bounds& bounds = bounds_[host];
  const int64_t low = std::max(bounds.low_ns, low_ns);
  const int64_t high = std::min(bounds.high_ns, high_ns);
  if (low > high || (low == bounds.low_ns && high == bounds.high_ns)) {
    return false;
  }
  bounds.low_ns = low;
  bounds.high_ns = high;
  bounds.source = ClockSource::kAnswers;
  measured_[host] = {std::max(measured_[host].low_ns, low_ns), std::min(measured_[host].high_ns, high_ns)};
  fits_[host].reset();
  return true;
}

}  // namespace stalltrace::analysis
