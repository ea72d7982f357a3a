// SPDX-License-Identifier: Apache-2.0
#include "capture/python/late_watch.h"

#include <algorithm>
#include <optional>

namespace stalltrace::capture {
namespace {

int64_t still_since(const CallStanding& standing) { return std::max(standing.entered_ns, standing.ended_ns); }

/// The last entry time among the processes that have been inside a call for long.
std::optional<int64_t> waiting_since(std::span<const CallStanding> standings, int64_t now_ns) {
  std::optional<int64_t> newest;
  for (const CallStanding& standing : standings) {
    if (standing.inside && !standing.waits_by_design && now_ns - standing.entered_ns >= LateWatch::kLateNs) {
      newest = std::max(newest.value_or(standing.entered_ns), standing.entered_ns);
    }
  }
  return newest;
}

/// By communicator: the number of the newest call that a process entered long ago.
std::map<uint64_t, int64_t> numbers_waited_in(std::span<const CallStanding> standings, int64_t now_ns) {
  std::map<uint64_t, int64_t> numbers;
  for (const CallStanding& standing : standings) {
    if (standing.communicator != 0 && !standing.waits_by_design && now_ns - standing.entered_ns >= LateWatch::kLateNs) {
      int64_t& number = numbers.try_emplace(standing.communicator, standing.seq).first->second;
      number = std::max(number, standing.seq);
    }
  }
  return numbers;
}

/// Adds the first `most` by entry time of their newest call: an absent rank has the oldest.
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

std::vector<pid_t> LateWatch::choose(std::span<const CallStanding> standings, int64_t now_ns) {
  const auto waiting_ns = waiting_since(standings, now_ns);
  const auto waited_in = numbers_waited_in(standings, now_ns);
  // Calls that only launch return at once: a rank is behind that has not launched what another launched long ago.
  const auto is_behind = [&](const CallStanding& standing) {
    const auto number = waited_in.find(standing.communicator);
    return standing.launched && !standing.waits_by_design && number != waited_in.end() && standing.seq < number->second;
  };
  bool due = false;
  int64_t longest_ns = 0;
  std::vector<CallStanding> outside;
  std::vector<CallStanding> inside;
  std::map<pid_t, Still> still;  // a process that continued starts anew
  for (const CallStanding& standing : standings) {
    const int64_t since_ns = still_since(standing);
    const int64_t for_ns = now_ns - since_ns;
    if (for_ns < kLateNs) {
      continue;
    }
    const bool behind = is_behind(standing);
    const bool awaited = behind || (!standing.inside && waiting_ns && standing.entered_ns < *waiting_ns);
    const int64_t first_ns = awaited ? kLateNs : std::max(kStillNs, kUnusual * standing.usual_gap_ns);
    const auto known = still_.find(standing.pid);
    const bool same = known != still_.end() && known->second.since_ns == since_ns;
    const Still& now = still[standing.pid] = same ? known->second : Still{since_ns, 0};
    if (for_ns >= std::max(first_ns, now.next_sample_ns)) {
      due = true;
      longest_ns = std::max(longest_ns, for_ns);
    }
    (standing.inside && !behind ? inside : outside).push_back(standing);
  }
  still_ = std::move(still);
  const bool asked = asked_ && now_ns - answered_ns_ >= kAskedNs && !still_.empty();
  asked_ = asked_ && !asked && !still_.empty();
  if (!asked && (!due || !take_token(now_ns, longest_ns >= kStillNs))) {
    return {};
  }
  answered_ns_ = asked ? now_ns : answered_ns_;
  for (auto& [pid, one] : still_) {
    one.next_sample_ns = kAgain * (now_ns - one.since_ns);
  }
  std::vector<pid_t> pids;
  add_first(outside, kMostOutside, pids);
  add_first(inside, outside.empty() ? kMostOutside : kMostInside, pids);
  return pids;
}

std::vector<pid_t> LateWatches::choose(const StandingsOfUsers& users, int64_t now_ns) {
  if (watches_.size() >= kMostUsers) {
    std::erase_if(watches_, [&](const auto& watch) { return !users.contains(watch.first); });
  }
  for (const auto& [user, standings] : users) {
    LateWatch& watch = watches_[user];
    if (asked_) {
      watch.ask();
    }
  }
  asked_ = asked_ && users.empty();
  auto next = users.upper_bound(last_);
  for (size_t tried = 0; tried < users.size(); ++tried, ++next) {
    if (next == users.end()) {
      next = users.begin();
    }
    if (std::vector<pid_t> pids = watches_[next->first].choose(next->second, now_ns); !pids.empty()) {
      last_ = next->first;
      return pids;
    }
  }
  return {};
}

}  // namespace stalltrace::capture
