// SPDX-License-Identifier: Apache-2.0
#include "capture/python/late_watch.h"

#include <algorithm>
#include <optional>

namespace stalltrace::capture {
namespace {

int64_t still_ns(const CallStanding& standing, int64_t now_ns) {
  return now_ns - std::max(standing.entered_ns, standing.ended_ns);
}

/// When the last of those entered that are inside, and have been for long.
std::optional<int64_t> waiting_since(std::span<const CallStanding> standings, int64_t now_ns) {
  std::optional<int64_t> newest;
  for (const CallStanding& standing : standings) {
    if (standing.inside && !standing.waits_by_design && now_ns - standing.entered_ns >= LateWatch::kLateNs) {
      newest = std::max(newest.value_or(standing.entered_ns), standing.entered_ns);
    }
  }
  return newest;
}

/// The first `most` by when they entered their newest call: who stays away has the oldest.
void add_first(std::vector<CallStanding> from, size_t most, std::vector<pid_t>& pids) {
  std::ranges::sort(from, {}, &CallStanding::entered_ns);
  for (size_t i = 0; i < from.size() && i < most; ++i) {
    pids.push_back(from[i].pid);
  }
}

}  // namespace

bool LateWatch::take_token(int64_t now_ns, bool lasting) {
  tokens_ns_ = std::min(tokens_ns_ + (filled_ns_ == 0 ? 0 : now_ns - filled_ns_), kMostAtOnce * kEveryNs);
  filled_ns_ = now_ns;
  if (tokens_ns_ < (lasting ? 1 : kKept + 1) * kEveryNs) {
    return false;
  }
  tokens_ns_ -= kEveryNs;
  return true;
}

bool LateWatch::is_due(const CallStanding& standing, int64_t still_ns, bool awaited) {
  const int64_t first_ns = awaited ? kLateNs : std::max(kStillNs, kUnusual * standing.usual_gap_ns);
  if (still_ns < first_ns) {
    return false;
  }
  return still_ns >= next_look_ns_.try_emplace(standing.pid, first_ns).first->second;
}

std::vector<pid_t> LateWatch::choose(std::span<const CallStanding> standings, int64_t now_ns) {
  const auto waiting_ns = waiting_since(standings, now_ns);
  bool due = false;
  int64_t longest_ns = 0;
  std::vector<CallStanding> outside;
  std::vector<CallStanding> inside;
  std::map<pid_t, int64_t> next_look_ns;
  for (const CallStanding& standing : standings) {
    const int64_t since_ns = still_ns(standing, now_ns);
    if (since_ns < kLateNs) {
      continue;
    }
    const bool awaited = !standing.inside && waiting_ns && standing.entered_ns < *waiting_ns;
    if (is_due(standing, since_ns, awaited)) {
      due = true;
      longest_ns = std::max(longest_ns, since_ns);
    }
    if (const auto next = next_look_ns_.find(standing.pid); next != next_look_ns_.end()) {
      next_look_ns.insert(*next);
    }
    (standing.inside ? inside : outside).push_back(standing);
  }
  next_look_ns_ = std::move(next_look_ns);  // who goes on begins anew
  const bool nobody = outside.empty() && inside.empty();
  const bool asked = asked_ && now_ns - answered_ns_ >= kAskedNs && !nobody;
  asked_ = asked_ && !asked && !nobody;
  if (!asked && (!due || !take_token(now_ns, longest_ns >= kStillNs))) {
    return {};
  }
  answered_ns_ = asked ? now_ns : answered_ns_;
  for (const auto* group : {&outside, &inside}) {
    for (const CallStanding& standing : *group) {
      next_look_ns_[standing.pid] = kAgain * still_ns(standing, now_ns);
    }
  }
  std::vector<pid_t> pids;
  add_first(outside, kMostOutside, pids);
  add_first(inside, outside.empty() ? kMostOutside : kMostInside, pids);
  return pids;
}

}  // namespace stalltrace::capture
