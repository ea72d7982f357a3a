// SPDX-License-Identifier: Apache-2.0
#include "analysis/live/live_window.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "model/visit_in_order.h"

namespace stalltrace::analysis {
namespace {

/// Rows that are too old are removed at this interval, not at every step, because that visits all rows.
constexpr int64_t kSweepNs = 2 * kNsPerSecond;

/// Removes the rows that are `gone`, then the oldest rows beyond the limit.
template <typename Map, typename Gone>
void bound(Map& map, size_t limit, const Gone& gone) {
  using Traits = EventTraits<typename Map::mapped_type>;
  std::erase_if(map, [&](const auto& entry) { return gone(entry.second); });
  if (map.size() <= limit) {
    return;
  }
  std::vector<int64_t> begins;
  begins.reserve(map.size());
  for (const auto& [key, row] : map) {
    begins.push_back(Traits::begin_ns(row));
  }
  const auto cut = begins.begin() + static_cast<int64_t>(map.size() - limit);
  std::nth_element(begins.begin(), cut, begins.end());
  const int64_t first_kept_ns = *cut;
  std::erase_if(
      map, [&](const auto& entry) { return map.size() > limit && Traits::begin_ns(entry.second) < first_kept_ns; });
  while (map.size() > limit) {  // many rows began at the same time
    map.erase(map.begin());
  }
}

}  // namespace

void LiveWindow::accept(Event event) {
  std::visit([this]<typename T>(T&& row) { add(std::forward<T>(row)); }, std::move(event));
}

template <StateType T>
void LiveWindow::add(T row) {
  auto& rows = std::get<States<T>>(states_);
  if constexpr (std::is_same_v<T, Stack>) {  // a program calls from few call sites: keep the first ones
    if (rows.size() >= limits_.states) {
      return;
    }
  }
  auto key = EventTraits<T>::key(row);
  rows.insert_or_assign(std::move(key), std::move(row));
}

template <StreamedType T>
void LiveWindow::add(T row) {
  Stream<T>& rows = std::get<Stream<T>>(streams_);
  rows.push_back(std::move(row));
  if (rows.size() > limits_.rows) {
    rows.pop_front();
  }
}

void LiveWindow::add(Collective row) {
  Stream<Collective>& rows = std::get<Stream<Collective>>(streams_);
  if (moves_data(row.op)) {
    called_.insert({row.node_id, row.pid});
  }
  const auto by_id = [](const Collective& a, const Collective& b) { return a.event_id < b.event_id; };
  const auto at = rows.empty() || rows.back().event_id < row.event_id
                      ? rows.end()
                      : std::lower_bound(rows.begin(), rows.end(), row, by_id);
  if (at != rows.end() && at->event_id == row.event_id) {
    *at = std::move(row);
    return;
  }
  rows.insert(at, std::move(row));
  if (rows.size() > limits_.rows) {
    rows.pop_front();
  }
}

void LiveWindow::advance(int64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  if (now_ns_ - swept_ns_ < kSweepNs) {
    return;
  }
  swept_ns_ = now_ns_;
  for_each_type(kStreamedTypes, [&]<typename T>() {
    using Traits = EventTraits<T>;
    std::erase_if(std::get<Stream<T>>(streams_), [&](const T& row) {
      return Traits::known_until_ns(row) < from_ns() && !is_pinned(Traits::begin_ns(row)) && !is_open_set_up(row);
    });
  });
  forget_states();
}

/// A set-up's row comes once, and the set-up can take longer than the window.
template <StreamedType T>
bool LiveWindow::is_open_set_up(const T& row) const {
  if constexpr (std::is_same_v<T, Collective>) {
    return !moves_data(row.op) && !row.duration_ns && !called_.contains({row.node_id, row.pid}) &&
           std::ranges::any_of(std::get<States<Process>>(states_), [&](const auto& entry) {
             return entry.second.node_id == row.node_id && entry.second.pid == row.pid && !entry.second.exit_ns;
           });
  }
  return false;
}

bool LiveWindow::is_pinned(int64_t time_ns) const {
  return std::any_of(pinned_.begin(), pinned_.end(), [&](const TimeRange& range) { return range.contains(time_ns); });
}

/// Removes states that ended before the window or exceed the limit. Nodes stay: they name the agents that recorded.
void LiveWindow::forget_states() {
  int64_t horizon_ns = from_ns();
  for (const TimeRange& range : pinned_) {
    horizon_ns = std::min(horizon_ns, range.from_ns);
  }
  for_each_type(kStateTypes, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, Node>) {
      bound(std::get<States<T>>(states_), limits_.states,
            [&](const T& row) { return EventTraits<T>::end_ns(row) < horizon_ns; });
    }
  });
  std::set<std::pair<NodeId, int32_t>> known;
  for (const auto& [key, process] : std::get<States<Process>>(states_)) {
    known.insert({process.node_id, process.pid});
  }
  std::erase_if(called_, [&](const auto& process) { return !known.contains(process); });
}

bool LiveWindow::has_ranks() const {
  return std::ranges::any_of(std::get<States<Process>>(states_), [](const auto& entry) {
    return entry.second.rank && entry.second.world_size.value_or(0) > 1;
  });
}

size_t LiveWindow::rows() const {
  size_t all = 0;
  for_each_type(kStateTypes, [&]<typename T>() { all += std::get<States<T>>(states_).size(); });
  for_each_type(kStreamedTypes, [&]<typename T>() { all += std::get<Stream<T>>(streams_).size(); });
  return all;
}

Status LiveWindow::read_state(AnyRows rows) {
  std::visit(
      [this]<typename T>(std::vector<T>* all) {
        const States<T>& kept = std::get<States<T>>(states_);
        all->reserve(all->size() + kept.size());
        for (const auto& [key, row] : kept) {
          all->push_back(row);
          if constexpr (std::is_same_v<T, Node>) {
            all->back().ended_ns = std::min(row.ended_ns.value_or(now_ns_), now_ns_);
          }
        }
      },
      rows);
  return {};
}

Status LiveWindow::read_stream(TimeRange range, AnyVisitor visitor) {
  std::visit([&]<typename T>(const Visitor<T>* visit) { visit_in_order(std::get<Stream<T>>(streams_), range, *visit); },
             visitor);
  return {};
}

}  // namespace stalltrace::analysis
