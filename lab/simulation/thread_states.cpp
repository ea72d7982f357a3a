// SPDX-License-Identifier: Apache-2.0
#include "lab/simulation/thread_states.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "base/clock.h"

namespace stalltrace::simulation {
namespace {

constexpr int64_t kLongWaitNs = 5 * kNsPerMs;
constexpr int64_t kWindowNs = 100 * kNsPerMs;
constexpr int64_t kSmallestRowNs = kNsPerMs;

}  // namespace

void ThreadStates::add(WaitKind kind, int64_t from_ns, int64_t to_ns, int32_t by_pid, const std::string& by_name) {
  if (to_ns <= from_ns) {
    return;
  }
  if (!states_.empty() && states_.back().kind == kind && states_.back().to_ns == from_ns && by_name.empty() &&
      states_.back().by_name.empty()) {
    states_.back().to_ns = to_ns;
    return;
  }
  states_.push_back({kind, from_ns, to_ns, by_pid, by_name, false});
}

void ThreadStates::add_open(WaitKind kind, int64_t from_ns) {
  states_.push_back({kind, from_ns, kForever, 0, {}, true});
}

std::optional<WaitKind> ThreadStates::at(int64_t time_ns) const {
  const auto after =
      std::ranges::partition_point(states_, [&](const State& state) { return state.from_ns <= time_ns; });
  if (after == states_.begin() || std::prev(after)->to_ns <= time_ns) {
    return std::nullopt;
  }
  return std::prev(after)->kind;
}

void ThreadStates::write(std::vector<WaitSpan>& out, int64_t shift_ns, int64_t from_ns, int64_t to_ns) const {
  struct Sum {
    int64_t waited_ns = 0;
    uint32_t count = 0;
    std::map<std::pair<int32_t, std::string>, int64_t> by;
  };
  std::map<std::pair<int64_t, WaitKind>, Sum> windows;
  const auto row = [&](WaitKind kind, int64_t begin_ns, int64_t window_ns, int64_t waited_ns) {
    WaitSpan span{
        .node_id = node_, .timestamp_ns = begin_ns + shift_ns, .window_ns = window_ns, .waited_ns = waited_ns};
    span.kind = kind;
    span.pid = pid_;
    span.tid = tid_;
    span.thread_name = name_;
    return span;
  };
  for (const State& state : states_) {
    const int64_t begin_ns = std::max(state.from_ns, from_ns);
    const bool open = state.open || state.to_ns > to_ns;
    const int64_t end_ns = state.open && to_ns == kForever ? begin_ns : std::min(state.to_ns, to_ns);
    if (begin_ns > end_ns || (begin_ns == end_ns && !state.open)) {
      continue;
    }
    if (state.kind != WaitKind::kOnCpu && (open || end_ns - begin_ns >= kLongWaitNs)) {
      WaitSpan span = row(state.kind, begin_ns, end_ns - begin_ns, end_ns - begin_ns);
      span.open = open;
      span.by_pid = state.by_pid;
      span.by_name = state.by_name;
      span.by_waited_ns = state.by_name.empty() ? 0 : span.waited_ns;
      out.push_back(span);
      continue;
    }
    for (int64_t at = begin_ns; at < end_ns;) {
      const int64_t window = at / kWindowNs * kWindowNs;
      const int64_t until = std::min(window + kWindowNs, end_ns);
      Sum& sum = windows[{window, state.kind}];
      sum.waited_ns += until - at;
      ++sum.count;
      if (!state.by_name.empty()) {
        sum.by[{state.by_pid, state.by_name}] += until - at;
      }
      at = until;
    }
  }
  for (const auto& [key, sum] : windows) {
    if (sum.waited_ns < kSmallestRowNs) {
      continue;
    }
    WaitSpan span = row(key.second, key.first, kWindowNs, sum.waited_ns);
    span.count = sum.count;
    if (key.second == WaitKind::kRunnable && !sum.by.empty()) {
      const auto most = std::max_element(sum.by.begin(), sum.by.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      std::tie(span.by_pid, span.by_name) = most->first;
      span.by_waited_ns = std::max<int64_t>(0, 2 * most->second - sum.waited_ns);  // the lower bound of a majority vote
    }
    out.push_back(span);
  }
}

}  // namespace stalltrace::simulation
