// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include "analysis/thresholds/stalls.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// 18 years. Times are less than 127 years after 1970 (a source leaves out others), so neither the sum of a time, a
/// shift and a duration nor the difference of two overflows.
constexpr int64_t kMostShiftNs = int64_t{1} << 59;
constexpr size_t kHostsListed = 8;

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

void OffsetBounds::narrow_by(const HostEdge& reference, const HostEdge& other, Bounds& bounds) {
  constexpr HostEdge kNone;
  if (reference.first_end_ns != kNone.first_end_ns) {
    bounds.high_ns = std::min(bounds.high_ns, reference.first_end_ns - other.last_arrival_ns);
  }
  if (reference.last_arrival_ns != kNone.last_arrival_ns && other.first_end_ns != kNone.first_end_ns) {
    bounds.low_ns = std::max(bounds.low_ns, reference.last_arrival_ns - other.first_end_ns);
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
    const Bounds& slice = slices_[host * kSlices + i];
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
      continue;  // a host without collectives, such as a head node, has no late rank
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
      "each waits for the other, on a communicator made while tracing): who arrived late across hosts is not judged",
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
