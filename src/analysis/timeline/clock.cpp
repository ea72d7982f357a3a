// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <span>
#include <tuple>

#include "analysis/thresholds/stalls.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// 18 years. Times are less than 127 years after 1970 (a source leaves out others), so neither the sum of a time, a
/// shift and a duration nor the difference of two overflows.
constexpr int64_t kMostShiftNs = int64_t{1} << 59;
constexpr size_t kHostsListed = 8;
/// Bounds may contradict each other by this much of the time that they are of, since clocks drift ...
constexpr int64_t kDriftPpm = 100;
/// ... and by this much, since a host's thread sees late what its device did.
constexpr int64_t kSeenLateNs = kNsPerMs;

/// The sum of two values that lie in these ranges.
OffsetBounds::Range sum(const OffsetBounds::Range& a, const OffsetBounds::Range& b) {
  const auto add = [](int64_t x, int64_t y) { return std::clamp(x + y, -kMostShiftNs, kMostShiftNs); };
  OffsetBounds::Range both;
  if (a.low_ns != both.low_ns && b.low_ns != both.low_ns) {
    both.low_ns = add(a.low_ns, b.low_ns);
  }
  if (a.high_ns != both.high_ns && b.high_ns != both.high_ns) {
    both.high_ns = add(a.high_ns, b.high_ns);
  }
  return both;
}

OffsetBounds::Range negative(const OffsetBounds::Range& range) {
  OffsetBounds::Range turned;
  if (range.high_ns != turned.high_ns) {
    turned.low_ns = -range.high_ns;
  }
  if (range.low_ns != turned.low_ns) {
    turned.high_ns = -range.low_ns;
  }
  return turned;
}

OffsetBounds::Range intersection(const OffsetBounds::Range& a, const OffsetBounds::Range& b) {
  return {.low_ns = std::max(a.low_ns, b.low_ns), .high_ns = std::min(a.high_ns, b.high_ns)};
}

/// By how much the lower bound exceeds the upper one.
int64_t contradiction_ns(const OffsetBounds::Range& range) {
  return range.known() ? std::max<int64_t>(range.low_ns - range.high_ns, 0) : 0;
}

/// True if the bounds contradict each other by more than drift explains, and did not do so before they were narrowed.
bool contradicts(const OffsetBounds::Range& before, const OffsetBounds::Range& narrowed, int64_t length_ns) {
  const int64_t drift_ns = length_ns / 1'000'000 * kDriftPpm;
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
    narrow_by(reference, other, bounds_[host]);
    if (!slices_.empty() && reference.last_arrival_ns != kNone.last_arrival_ns) {
      narrow_by(reference, other, slices_[host * kSlices + slice_of(reference.last_arrival_ns)]);
    }
  }
}

void OffsetBounds::narrow_by(const HostEdge& reference, const HostEdge& other, Range& bounds) {
  constexpr HostEdge kNone;
  if (reference.first_end_ns != kNone.first_end_ns) {
    bounds.high_ns = std::min(bounds.high_ns, reference.first_end_ns - other.last_arrival_ns);
  }
  if (reference.last_arrival_ns != kNone.last_arrival_ns && other.first_end_ns != kNone.first_end_ns) {
    bounds.low_ns = std::max(bounds.low_ns, reference.last_arrival_ns - other.first_end_ns);
  }
}

OffsetBounds::Range& OffsetBounds::Difference::slice(size_t index) {
  const auto found = std::ranges::lower_bound(slices, index, {}, &Slice::index);
  return found != slices.end() && found->index == index ? found->range
                                                        : slices.insert(found, {.index = index, .range = {}})->range;
}

void OffsetBounds::add_transfers(size_t sender, size_t receiver, std::span<const Transfer> transfers) {
  if (transfers.empty()) {
    return;
  }
  const auto [first, second] = std::minmax(sender, receiver);
  Difference& difference = differences_[{first, second}];
  // One clock divides both directions into slices, near to that of the reference.
  const size_t timed_by = second == reference_ ? second : first;
  const int64_t shift_ns = timed_by != reference_ && bounds_[timed_by].known() ? offset(timed_by).offset_ns : 0;
  for (const Transfer& transfer : transfers) {
    const auto narrow = [&](Range& range) {
      if (receiver == second) {
        range.low_ns = std::max(range.low_ns, transfer.begin_ns - transfer.end_ns);
      } else {
        range.high_ns = std::min(range.high_ns, transfer.end_ns - transfer.begin_ns);
      }
    };
    narrow(difference.all);
    if (!slices_.empty()) {
      narrow(difference.slice(slice_of((timed_by == sender ? transfer.begin_ns : transfer.end_ns) + shift_ns)));
    }
  }
}

/// A host's bounds are final when those of all hosts that are known better are: no bound comes back to a host over
/// others, which would add to a contradiction again and again.
void OffsetBounds::narrow_by_transfers() {
  if (differences_.empty()) {
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
      next.emplace(offset(host).error_ns, host);
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
    for (const auto& [to, difference] : neighbours[from]) {
      if (!is_final[to]) {
        narrow_from(from, to, *difference);
        put(to);
      }
    }
  }
}

void OffsetBounds::narrow_from(size_t from, size_t to, const Difference& difference) {
  constexpr Range kNone{.low_ns = 0, .high_ns = 0};
  const auto narrowed = [&](const Range& known, const Range& origin, const Range& apart) {
    return intersection(known, sum(from == reference_ ? kNone : origin, from < to ? apart : negative(apart)));
  };
  const Range all = narrowed(bounds_[to], bounds_[from], difference.all);
  if (contradicts(bounds_[to], all, span_.length())) {
    return;
  }
  std::vector<Range> slices;
  auto next = difference.slices.begin();
  for (size_t i = 0; i < (slices_.empty() ? 0 : kSlices); ++i) {
    const bool has_transfers = next != difference.slices.end() && next->index == i;
    const Range& known = slices_[to * kSlices + i];
    slices.push_back(has_transfers ? narrowed(known, slices_[from * kSlices + i], next->range) : known);
    next += has_transfers ? 1 : 0;
    if (contradicts(known, slices.back(), span_.length() / static_cast<int64_t>(kSlices))) {
      return;
    }
  }
  if (contradiction_ns(all) > 0 && std::ranges::none_of(slices, &Range::known)) {
    return;  // by how much the clocks drifted is not known
  }
  const Bounds before = bounds_[to];
  const int64_t error_ns = before.known() ? offset(to).error_ns : kForever;
  const auto own_slices = std::span(slices_).subspan(to * slices.size(), slices.size());
  bounds_[to].low_ns = all.low_ns;
  bounds_[to].high_ns = all.high_ns;
  std::ranges::swap_ranges(slices, own_slices);
  if (before.known() && offset(to).error_ns >= error_ns) {
    bounds_[to] = before;
    std::ranges::swap_ranges(slices, own_slices);
  }
}

size_t OffsetBounds::slice_of(int64_t time_ns) const {
  const int64_t since_ns = std::clamp<int64_t>(time_ns - span_.from_ns, 0, span_.length() - 1);
  const double share = static_cast<double>(since_ns) / static_cast<double>(span_.length());
  return std::min(static_cast<size_t>(share * kSlices), kSlices - 1);
}

OffsetBounds::Offset OffsetBounds::offset(size_t host) const {
  const Bounds& all = bounds_[host];
  const auto middle = [](int64_t low_ns, int64_t high_ns) {
    return std::clamp(low_ns + (high_ns - low_ns) / 2, -kMostShiftNs, kMostShiftNs);
  };
  Offset found{.offset_ns = middle(all.low_ns, all.high_ns), .error_ns = std::abs(all.high_ns - all.low_ns) / 2};
  if (all.low_ns <= all.high_ns) {
    return found;
  }
  found.drifted = true;
  found.error_ns = std::abs(all.low_ns - all.high_ns);
  // Each slice has an offset between its bounds: all of them lie between the lowest and the highest of these.
  int64_t low_ns = std::numeric_limits<int64_t>::max();
  int64_t high_ns = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < (slices_.empty() ? 0 : kSlices); ++i) {
    const Range& slice = slices_[host * kSlices + i];
    if (slice.known()) {
      low_ns = std::min({low_ns, slice.low_ns, slice.high_ns});
      high_ns = std::max({high_ns, slice.low_ns, slice.high_ns});
    }
  }
  if (low_ns < high_ns) {
    found.offset_ns = middle(low_ns, high_ns);
    found.error_ns = std::max(found.error_ns, (high_ns - low_ns) / 2);
  }
  return found;
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
  bounds.measured = true;
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
    clock.hosts_[node.node_id] = {.index = found->second, .error_ns = std::nullopt};
  }
  for (const Node& node : nodes) {
    const Node& reference = *references[clock.hosts_[node.node_id].index];
    clock.shifts_[node.node_id] =
        std::clamp(reference.clock_offset_ns - node.clock_offset_ns, -kMostShiftNs, kMostShiftNs);
  }
  clock.host_count_ = references.size();
  if (clock.host_count_ == 1) {
    clock.set_error(0, 0);
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
  std::vector<std::string> drifted;
  const Node& reference = *references[offsets.reference()];
  set_error(offsets.reference(), 0);
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
    const auto [offset_ns, error_ns, has_drifted] = offsets.offset(at);
    if (has_drifted) {
      drifted.push_back(references[at]->name);
    }
    for (const Node& node : nodes) {
      if (host(node.node_id) == at) {
        shifts_[node.node_id] += offset_ns;
      }
    }
    set_error(at, error_ns);
    if (error_ns > kStallFloorNs) {
      distrust(at);
    }
    moved.push_back({references[at]->name, offset_ns, error_ns});
  }
  note_moved(moved, reference.name);
  if (!incomparable.empty()) {
    note_incomparable(incomparable, reference.name);
  }
  note_measured(offsets);
  if (!drifted.empty()) {
    notes_.push_back(
        fmt::format("the clock{} of {} drifted against that of {} while the job ran: one offset fits only "
                    "within the error that is given",
                    drifted.size() == 1 ? "" : "s", listed(drifted), reference.name));
  }
}

/// One note: which of the two ways the clocks are known by.
void Clock::note_measured(const OffsetBounds& offsets) {
  size_t measured = 0;
  int64_t error_ns = 0;
  for (size_t at = 0; at < host_count_; ++at) {
    const OffsetBounds::Bounds& bounds = offsets.bounds(at);
    if (bounds.measured && bounds.has_calls) {
      ++measured;
      error_ns = std::max(error_ns, offsets.offset(at).error_ns);
    }
  }
  if (measured > 0) {
    notes_.push_back(
        fmt::format("of {} hosts, the clocks of {} are known by what they answered when they were asked, to within {}; "
                    "those of the others by their collectives",
                    host_count_, measured, format_duration(error_ns)));
  }
}

/// A note for each, or for many together.
void Clock::note_moved(const std::vector<Moved>& hosts, const std::string& reference) {
  if (hosts.size() > kHostsListed) {
    const auto far = std::ranges::max_element(hosts, {}, [](const Moved& host) { return std::abs(host.offset_ns); });
    const auto vague = std::ranges::max_element(hosts, {}, &Moved::error_ns);
    notes_.push_back(
        fmt::format("the clocks of {} hosts were moved to that of {}, by up to {} ({}), known to within {} ({})",
                    hosts.size(), reference, format_duration(std::abs(far->offset_ns)), far->name,
                    format_duration(vague->error_ns), vague->name));
    return;
  }
  for (const Moved& host : hosts) {
    notes_.push_back(fmt::format("the clock of {} was moved by {} to that of {}, known to within {}", host.name,
                                 format_duration(host.offset_ns), reference, format_duration(host.error_ns)));
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

void Clock::set_error(size_t host, int64_t error_ns) {
  for (auto& [node, known] : hosts_) {
    if (known.index == host) {
      known.error_ns = error_ns;
    }
  }
}

std::optional<int64_t> Clock::error_ns(NodeId node) const {
  const auto found = hosts_.find(node);
  return found == hosts_.end() ? std::nullopt : found->second.error_ns;
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

int64_t Clock::shift_ns(NodeId node) const {
  const auto found = shifts_.find(node);
  return found == shifts_.end() ? 0 : found->second;
}

int64_t Clock::largest_shift_ns() const {
  int64_t largest = 0;
  for (const auto& [node, shift] : shifts_) {
    largest = std::max(largest, std::abs(shift));
  }
  return largest;
}

}  // namespace stalltrace::analysis
