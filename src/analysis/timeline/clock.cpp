// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <span>

#include "analysis/thresholds/clocks.h"
#include "analysis/thresholds/stalls.h"
#include "analysis/timeline/clock_offsets/offset_bounds.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kHostsListed = 8;
constexpr double kPpmOfRate = 1e6;

/// "a, b and 3 more"
std::string listed(const std::vector<std::string>& hosts) {
  const size_t more = hosts.size() - std::min(hosts.size(), kHostsListed);
  return fmt::format("{}{}", fmt::join(std::span(hosts).first(hosts.size() - more), ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace

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
