// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <span>
#include <tuple>

#include "analysis/thresholds/clocks.h"
#include "analysis/thresholds/stalls.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// 18 years. Times are less than 127 years after 1970 (a source leaves out others), so neither the sum of a time, a
/// shift and a duration nor the difference of two overflows.
constexpr int64_t kMostShiftNs = int64_t{1} << 59;
constexpr size_t kHostsListed = 8;
constexpr double kPpmOfRate = 1e6;

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

/// "a, b and 3 more"
std::string listed(const std::vector<std::string>& hosts) {
  const size_t more = hosts.size() - std::min(hosts.size(), kHostsListed);
  return fmt::format("{}{}", fmt::join(std::span(hosts).first(hosts.size() - more), ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
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

Clock Clock::of(const std::vector<Node>& nodes) {
  Clock clock;
  std::map<std::string, size_t> hosts;  // boot id to host
  std::vector<const Node*> references;  // of each host the node whose clock the host's others are moved to
  // The same one in whatever order the nodes come: agents of one host measure its clock apart by nanoseconds.
  const auto goes_before = [](const Node& a, const Node& b) {
    return std::tie(a.name, a.clock_offset_ns) < std::tie(b.name, b.clock_offset_ns);
  };
  for (const Node& node : nodes) {
    const std::string boot = node.boot_id.empty() ? fmt::format("node {}", node.node_id) : node.boot_id;
    const auto [found, fresh] = hosts.try_emplace(boot, references.size());
    if (fresh) {
      references.push_back(&node);
    } else if (goes_before(node, *references[found->second])) {
      references[found->second] = &node;
    }
    clock.hosts_[node.node_id].index = found->second;
  }
  for (const Node& node : nodes) {
    const Node& reference = *references[clock.hosts_[node.node_id].index];
    clock.lines_[node.node_id].shift_ns =
        std::clamp(reference.clock_offset_ns - node.clock_offset_ns, -kMostShiftNs, kMostShiftNs);
  }
  clock.host_count_ = references.size();
  if (clock.host_count_ == 1) {
    clock.set_error(0, 0, ClockSource::kSameBoot);
  }
  return clock;
}

void Clock::align(const std::vector<Node>& nodes, const OffsetBounds& offsets) {
  std::vector<const Node*> references(host_count_);
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    references[host(node->node_id)] = &*node;
  }
  std::vector<std::string> incomparable;
  std::vector<Moved> moved;
  std::vector<std::string> unsteady;
  const Node& reference = *references[offsets.reference()];
  reference_ = offsets.reference();
  set_error(reference_, 0, ClockSource::kSameBoot);
  for (size_t at = 0; at < host_count_; ++at) {
    const OffsetBounds::Bounds& bounds = offsets.bounds(at);
    if (at == offsets.reference() || !bounds.has_calls) {
      continue;  // a host without calls, such as a head node, has no late rank
    }
    if (!bounds.known()) {
      distrust(at);
      incomparable.push_back(references[at]->name);
      continue;
    }
    const CorrectionLine correction = offsets.offset(at);
    if (!correction.fits) {
      unsteady.push_back(references[at]->name);
    }
    move_host(nodes, at, correction, offsets.span());
    const bool chosen_by_ends = correction.by_ends && bounds.source == ClockSource::kCollectives;
    const ClockSource source = chosen_by_ends ? ClockSource::kEnds : bounds.source;
    set_error(at, correction.error_ns, source);
    if (correction.error_ns > kStallFloorNs) {
      distrust(at);
    }
    moved.push_back({references[at]->name, correction, source});
  }
  note_moved(moved, reference.name);
  if (!incomparable.empty()) {
    note_incomparable(incomparable, reference.name);
  }
  note_sources(moved, reference.name);
  note_doubts(nodes, offsets, reference.name);
  if (!unsteady.empty()) {
    notes_.push_back(
        fmt::format("the clock{} of {} drifted against that of {} at different rates while the job ran: one rate fits "
                    "only within the error that is given",
                    unsteady.size() == 1 ? "" : "s", listed(unsteady), reference.name));
  }
}

/// A correction is by the reference's clock, and a drift by the node's own.
void Clock::move_host(const std::vector<Node>& nodes, size_t host, const CorrectionLine& correction, TimeRange span) {
  const int64_t offset_ns = std::clamp(correction.correction_ns, -kMostShiftNs, kMostShiftNs);
  for (const Node& node : nodes) {
    if (this->host(node.node_id) != host) {
      continue;
    }
    ClockLine& line = lines_[node.node_id];
    line.shift_ns += offset_ns;
    if (correction.rate != 0) {
      line.drift = {.rate = correction.rate / (1 - correction.rate),
                    .at_ns = correction.at_ns - line.shift_ns,
                    .reach_ns = span.length() / 2 * 3};  // as long as the job, before and after it
    }
  }
}

/// One note, where not all clocks are known by collectives alone: how many are known by what, and how well.
void Clock::note_sources(const std::vector<Moved>& hosts, const std::string& reference) {
  struct Kind {
    ClockSource source;
    std::string_view known_by;
  };
  constexpr std::array kKinds{Kind{ClockSource::kAnswers, "by what nodes answered when they were asked"},
                              Kind{ClockSource::kKernel, "by how far off the kernels report them to be"},
                              Kind{ClockSource::kCollectives, "by their collectives"}};
  const auto kind_of = [](const Moved& host) {
    return host.source == ClockSource::kEnds ? ClockSource::kCollectives : host.source;
  };
  std::vector<std::string> parts;
  for (const Kind& kind : kKinds) {
    int64_t count = 0;
    int64_t error_ns = 0;
    for (const Moved& host : hosts) {
      if (kind_of(host) == kind.source) {
        ++count;
        error_ns = std::max(error_ns, host.correction.error_ns);
      }
    }
    if (count > 0 && (kind.source != ClockSource::kCollectives || !parts.empty())) {
      parts.push_back(fmt::format("{} {}, to within {}", "of " + count_of(count, "host"), kind.known_by,
                                  format_duration(error_ns)));
    }
  }
  if (!parts.empty()) {
    notes_.push_back(fmt::format("clocks against that of {}: {}", reference, fmt::join(parts, "; ")));
  }
}

/// What kernels report that was not used.
void Clock::note_doubts(const std::vector<Node>& nodes, const OffsetBounds& offsets, const std::string& reference) {
  const auto with = [&](KernelDoubt doubt) {
    std::vector<std::string> names;
    std::vector<bool> named(host_count_);
    for (const Node& node : nodes) {
      const size_t at = host(node.node_id);
      if (!named[at] && offsets.bounds(at).has_calls && offsets.bounds(at).doubt == doubt) {
        names.push_back(node.name);
        named[at] = true;
      }
    }
    return names;
  };
  const std::vector<std::string> were_set = with(KernelDoubt::kWasSet);
  if (!were_set.empty()) {
    notes_.push_back(
        fmt::format("the clock{} of {} {} set while recording by more than the kernel had reported to be "
                    "possible: what it reports of its clock was not used",
                    were_set.size() == 1 ? "" : "s", listed(were_set), were_set.size() == 1 ? "was" : "were"));
  }
  const std::vector<std::string> contradict = with(KernelDoubt::kContradicts);
  if (!contradict.empty()) {
    notes_.push_back(
        fmt::format("how far off the kernels of {} report their clocks to be, against that of {}, "
                    "contradicts what the collectives show, and was not used",
                    listed(contradict), reference));
  }
}

/// A note for each, or for many together.
void Clock::note_moved(const std::vector<Moved>& hosts, const std::string& reference) {
  const auto offset_of = [](const Moved& host) { return std::abs(host.correction.correction_ns); };
  const auto error_of = [](const Moved& host) { return host.correction.error_ns; };
  const auto rate_of = [](const Moved& host) { return std::abs(host.correction.rate); };
  if (hosts.size() > kHostsListed) {
    const auto far = std::ranges::max_element(hosts, {}, offset_of);
    const auto vague = std::ranges::max_element(hosts, {}, error_of);
    const auto fast = std::ranges::max_element(hosts, {}, rate_of);
    notes_.push_back(
        fmt::format("the clocks of {} hosts were moved to that of {}, by up to {} ({}){}, known to within {} ({})",
                    hosts.size(), reference, format_duration(offset_of(*far)), far->name,
                    rate_of(*fast) == 0
                        ? ""
                        : fmt::format(" and a drift of up to {:.3g} ppm ({})", kPpmOfRate * rate_of(*fast), fast->name),
                    format_duration(error_of(*vague)), vague->name));
    return;
  }
  for (const Moved& host : hosts) {
    const double rate = host.correction.rate;
    notes_.push_back(fmt::format("the clock of {} was moved by {}{} to that of {}, known to within {}", host.name,
                                 format_duration(host.correction.correction_ns),
                                 rate == 0 ? "" : fmt::format(" and a drift of {:.3g} ppm", kPpmOfRate * rate),
                                 reference, format_duration(host.correction.error_ns)));
  }
}

/// One note, however many they are.
void Clock::note_incomparable(const std::vector<std::string>& hosts, const std::string& reference) {
  notes_.push_back(fmt::format(
      "the clock{} of {} could not be compared with that of {} (no AllReduce, AllGather or other collective in which "
      "each waits for the other, nor Sends by NCCL both ways, on a communicator made while tracing): who arrived late "
      "across hosts is not judged",
      hosts.size() == 1 ? "" : "s", listed(hosts), reference));
}

size_t Clock::host(NodeId node) const {
  const auto found = hosts_.find(node);
  return found == hosts_.end() ? 0 : found->second.index;
}

Clock::Known Clock::known(NodeId node) const {
  const auto found = hosts_.find(node);
  return found == hosts_.end() ? Known{0, std::nullopt} : Known{found->second.index, found->second.error_ns};
}

void Clock::distrust(size_t host) {
  for (auto& [node, known] : hosts_) {
    known.reliable = known.reliable && known.index != host;
  }
}

void Clock::set_error(size_t host, int64_t error_ns, ClockSource source) {
  for (auto& [node, known] : hosts_) {
    if (known.index == host) {
      known.error_ns = error_ns;
      known.source = source;
    }
  }
}

std::optional<int64_t> Clock::error_ns(NodeId node) const {
  const auto found = hosts_.find(node);
  return found == hosts_.end() ? std::nullopt : found->second.error_ns;
}

ClockSource Clock::source(NodeId node) const {
  const auto found = hosts_.find(node);
  return found == hosts_.end() ? ClockSource::kUnknown : found->second.source;
}

bool Clock::comparable(NodeId a, NodeId b) const {
  const auto x = hosts_.find(a);
  const auto y = hosts_.find(b);
  if (x == hosts_.end() || y == hosts_.end() || x->second.index == y->second.index) {
    return true;
  }
  return x->second.reliable && y->second.reliable;
}

bool Clock::all_comparable() const {
  return std::ranges::all_of(hosts_, [](const auto& entry) { return entry.second.reliable; });
}

ClockLine Clock::line(NodeId node) const {
  const auto found = lines_.find(node);
  return found == lines_.end() ? ClockLine{} : found->second;
}

int64_t Clock::largest_shift_ns() const {
  int64_t largest = 0;
  for (const auto& [node, line] : lines_) {
    largest = std::max(largest, std::abs(line.shift_ns) + line.drift.most_ns());
  }
  return largest;
}

int64_t ClockLine::back(int64_t common_ns) const {
  int64_t time_ns = common_ns - shift_ns;
  for (int i = 0; drift.rate != 0 && i < 3; ++i) {  // each leaves a thousandth of the distance, and rounding
    time_ns -= at(time_ns) - common_ns;
  }
  return time_ns;
}

}  // namespace stalltrace::analysis
