// SPDX-License-Identifier: Apache-2.0
#include "capture/python/late_watch.h"

#include <algorithm>
#include <optional>

namespace stalltrace::capture {
namespace {

int64_t still_since(const CallStanding& standing) { return std::max(standing.entered_ns, standing.ended_ns); }

/// Adds the first `most` by entry time of their newest call: an absent rank has the oldest.
void add_first(std::vector<CallStanding> from, size_t most, std::vector<pid_t>& pids) {
  std::ranges::sort(from, {}, &CallStanding::entered_ns);
  for (size_t i = 0; i < from.size() && i < most; ++i) {
    pids.push_back(from[i].pid);
  }
}

}  // namespace

/// What processes have waited in for at least a time.
class LateWatch::Waits {
 public:
  Waits(std::span<const CallStanding> standings, int64_t now_ns, int64_t limit_ns) {
    for (const CallStanding& standing : standings) {
      if (standing.waits_by_design || now_ns - standing.entered_ns < limit_ns) {
        continue;
      }
      if (standing.inside) {
        newest_entry_ns_ = std::max(newest_entry_ns_.value_or(standing.entered_ns), standing.entered_ns);
      }
      if (standing.communicator != 0) {
        int64_t& number = numbers_.try_emplace(standing.communicator, standing.seq).first->second;
        number = std::max(number, standing.seq);
      }
    }
  }

  /// Calls that only launch return at once: a rank is behind that has not launched what another launched long ago.
  [[nodiscard]] bool behind(const CallStanding& standing) const {
    const auto number = numbers_.find(standing.communicator);
    return standing.launched && !standing.waits_by_design && number != numbers_.end() && standing.seq < number->second;
  }
  [[nodiscard]] bool awaits(const CallStanding& standing) const {
    return behind(standing) || (!standing.inside && newest_entry_ns_ && standing.entered_ns < *newest_entry_ns_);
  }

 private:
  std::optional<int64_t> newest_entry_ns_;  // of the processes that are inside a call
  std::map<uint64_t, int64_t> numbers_;     // by communicator: of the newest call
};

bool LateWatch::is_often_late(pid_t pid) const {
  const auto pauses = pauses_.find(pid);
  return pauses != pauses_.end() && pauses->second.count >= kOften;
}

/// A rank that lags behind goes on launching: until no rank waits for it, that is one lateness.
void LateWatch::note_late(const CallStanding& standing, int64_t now_ns) {
  Pauses& pauses = pauses_[standing.pid];
  if (!pauses.lasts) {
    pauses.count = std::min(pauses.count + 1, kOften);
    pauses.lasts = true;
  }
  pauses.seen_ns = now_ns;
}

/// True if the only process that is awaited often is.
bool LateWatch::note_pauses(std::span<const CallStanding> standings, const Waits& late, const Waits& soon,
                            int64_t now_ns) {
  std::erase_if(pauses_, [&](const auto& one) { return now_ns - one.second.seen_ns >= kRememberedNs; });
  const std::optional<Waits> any = pauses_.empty() ? std::nullopt : std::make_optional<Waits>(standings, now_ns, 0);
  size_t awaited_soon = 0;
  bool often = false;
  hurries_ = false;
  for (const CallStanding& standing : standings) {
    const int64_t for_ns = now_ns - still_since(standing);  // a rank that launches on may be behind in good health
    const bool is_soon = for_ns >= kSoonNs && soon.awaits(standing);
    const bool is_late = for_ns >= kLateNs && late.awaits(standing);
    awaited_soon += is_soon ? 1 : 0;
    often = often || (is_soon && is_often_late(standing.pid));
    if (const auto pauses = pauses_.find(standing.pid); pauses != pauses_.end() && !late.awaits(standing)) {
      pauses->second.lasts = false;
    }
    if (is_late) {
      note_late(standing, now_ns);
    } else if (is_soon || (for_ns >= kHurriedNs && any && any->awaits(standing) && is_often_late(standing.pid))) {
      hurries_ = true;
    }
  }
  return often && awaited_soon == 1;
}

bool LateWatch::take_token(int64_t now_ns, int64_t waited_ns) {
  tokens_ns_ = std::min(tokens_ns_ + (filled_ns_ == 0 ? 0 : now_ns - filled_ns_), kMostAtOnce * kEveryNs);
  filled_ns_ = now_ns;
  const int64_t kept = waited_ns >= kStillNs ? 0 : waited_ns >= kLateNs ? kKept : kKeptFromEarly;
  if (tokens_ns_ < (kept + 1) * kEveryNs) {
    return false;
  }
  tokens_ns_ -= kEveryNs;
  return true;
}

std::vector<pid_t> LateWatch::choose(std::span<const CallStanding> standings, int64_t now_ns) {
  const Waits late(standings, now_ns, kLateNs);
  const Waits soon(standings, now_ns, kSoonNs);
  const bool often = note_pauses(standings, late, soon, now_ns);
  const Waits& waits = often ? soon : late;
  const int64_t limit_ns = often ? kSoonNs : kLateNs;
  bool due = false;
  int64_t longest_ns = 0;
  std::vector<CallStanding> outside;
  std::vector<CallStanding> inside;
  std::map<pid_t, Still> still;  // a process that continued starts anew
  for (const CallStanding& standing : standings) {
    const int64_t since_ns = still_since(standing);
    const int64_t for_ns = now_ns - since_ns;
    if (for_ns < limit_ns) {
      continue;
    }
    const bool behind = waits.behind(standing);
    const bool awaited = waits.awaits(standing);
    const int64_t first_ns = awaited ? limit_ns : std::max(kStillNs, kUnusual * standing.usual_gap_ns);
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
  if (!asked && (!due || !take_token(now_ns, longest_ns))) {
    return {};
  }
  answered_ns_ = asked ? now_ns : answered_ns_;
  for (auto& [pid, one] : still_) {
    one.next_sample_ns = kAgain * std::max(kLateNs, now_ns - one.since_ns);
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
  hurries_ = false;
  auto next = users.upper_bound(last_);
  for (size_t tried = 0; tried < users.size(); ++tried, ++next) {
    if (next == users.end()) {
      next = users.begin();
    }
    LateWatch& watch = watches_[next->first];
    std::vector<pid_t> pids = watch.choose(next->second, now_ns);
    hurries_ = hurries_ || watch.hurries();
    if (!pids.empty()) {
      last_ = next->first;
      return pids;
    }
  }
  return {};
}

}  // namespace stalltrace::capture
