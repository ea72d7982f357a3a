// SPDX-License-Identifier: Apache-2.0
#include "analysis/live/live_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/explain.h"
#include "analysis/intervals.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/live.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostProcesses = 65'536;  // number of processes whose attempts are remembered

std::string end_of_link(const std::optional<int32_t>& rank, const std::optional<Endpoint>& endpoint) {
  return rank ? fmt::format("rank {}", *rank) : endpoint ? endpoint->address : "";
}

int64_t union_ns(const std::vector<TimeRange>& lost) { return IntervalSet(lost).total_ns(); }

/// A round on one node misses ranks: causes that may then be wrong say so.
void note_unrecorded_ranks(Report& report) {
  if (report.unrecorded_ranks.empty()) {
    return;
  }
  for (Finding& finding : report.findings) {
    const CauseRule& rule = rule_of(finding.cause);
    if (rule.cause == finding.cause && rule.seen_in_part != nullptr) {
      rule.seen_in_part(report.unrecorded_ranks, finding);
    }
  }
}

}  // namespace

LiveFindings::Key LiveFindings::key_of(const Finding& finding) {
  Key key{finding.cause, "", 0, "", "", finding.attempt.value_or(0)};
  if (finding.culprit) {
    std::get<1>(key) = finding.culprit->node;
    std::get<2>(key) = finding.culprit->pid;
  }
  if (finding.link) {
    std::get<3>(key) = end_of_link(finding.link->src_rank, finding.link->src);
    std::get<4>(key) = end_of_link(finding.link->dst_rank, finding.link->dst);
  }
  return key;
}

/// Counts stalls that have left the window for good.
void LiveFindings::retire_stalls(Entry& entry, int64_t horizon_ns) {
  std::vector<TimeRange>& lost = entry.newest.lost;  // sorted by end
  const auto first =
      std::partition_point(lost.begin(), lost.end(), [&](const TimeRange& range) { return range.to_ns < horizon_ns; });
  entry.retired_ns += union_ns({lost.begin(), first});
  entry.retired_stalls += first - lost.begin();
  lost.erase(lost.begin(), first);
}

void LiveFindings::see(const Finding& finding, TimeRange window) {
  const Key key = key_of(finding);
  auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& known) { return known.key == key; });
  if (entry == entries_.end()) {
    entries_.push_back({.key = key, .newest = finding, .total = finding});
    entry = entries_.end() - 1;
  }
  retire_stalls(*entry, window.from_ns);
  ++entry->rounds;
  entry->newest = finding;
  std::erase_if(entry->newest.lost, [&](const TimeRange& range) { return range.to_ns < window.from_ns; });
  refresh(*entry);
}

/// Rebuilds the whole finding so far, with its newest text.
void LiveFindings::refresh(Entry& entry) const {
  const Finding before = std::move(entry.total);
  entry.total = entry.newest;
  entry.total.window.from_ns = std::min(before.window.from_ns, entry.newest.window.from_ns);
  entry.total.window.to_ns = std::max(before.window.to_ns, entry.newest.window.to_ns);
  entry.total.severity = std::max(before.severity, entry.newest.severity);
  const int64_t lost_ns = entry.retired_ns + union_ns(entry.newest.lost);
  entry.total.stall_ms = std::max(entry.newest.stall_ms, static_cast<double>(lost_ns) / static_cast<double>(kNsPerMs));
  entry.total.collectives_affected = entry.retired_stalls == 0
                                         ? entry.newest.collectives_affected
                                         : entry.retired_stalls + static_cast<int64_t>(entry.newest.lost.size());
  entry.total.detected_ns = before.detected_ns;
  entry.total.ended_ns = before.ended_ns;
  entry.total.lost.clear();
}

/// The newest other finding that covers half of this one's last lost time.
int64_t LiveFindings::explained_by(const Entry& entry) const {
  const IntervalSet lost(entry.newest.lost);
  for (auto other = entries_.rbegin(); other != entries_.rend(); ++other) {
    if (&*other == &entry || other->rounds == 0 || other->number == 0) {
      continue;
    }
    int64_t covered_ns = 0;
    for (const TimeRange& range : other->newest.lost) {
      covered_ns += lost.covered_ns({range.from_ns, range.to_ns});
    }
    if (static_cast<double>(covered_ns) >= kCoverage * static_cast<double>(lost.total_ns())) {
      return other->number;
    }
  }
  return 0;
}

void LiveFindings::judge(Entry& entry, TimeRange window, std::vector<LiveChange>& changes) {
  const int64_t now_ns = window.to_ns;
  const bool fresh = now_ns - entry.total.window.to_ns < kLiveQuietNs;
  const auto give = [&](LiveNews news, int64_t other = 0) {
    entry.reported_ms = static_cast<int64_t>(entry.total.stall_ms);
    entry.reported_waiting = entry.total.severity == Severity::kWaiting;
    changes.push_back({news, now_ns, entry.number, entry.total, other});
  };
  if (entry.number == 0) {
    if (entry.rounds >= kRoundsToReport) {
      entry.number = ++reported_;
      entry.total.detected_ns = now_ns;
      give(LiveNews::kBegan);
    }
  } else if (entry.ended) {
    if (fresh && entry.rounds >= kRoundsToReport && entry.total.window.to_ns > *entry.total.ended_ns) {
      entry.ended = false;
      entry.total.ended_ns.reset();
      give(LiveNews::kCameBack);
    }
  } else if (const int64_t other = entry.rounds == 0 ? explained_by(entry) : 0; !fresh || other != 0) {
    entry.ended = true;
    entry.total.ended_ns = now_ns;
    give(LiveNews::kEnded, other);
  } else if (entry.reported_waiting && entry.total.severity != Severity::kWaiting) {
    give(LiveNews::kWorsened);
  } else if (entry.total.stall_ms > static_cast<double>(entry.reported_ms) &&
             entry.total.stall_ms >= kLiveGrowth * static_cast<double>(entry.reported_ms)) {
    give(LiveNews::kGrew);
  }
}

std::vector<LiveChange> LiveFindings::update(const Report& report, TimeRange window) {
  std::set<Key> seen;
  for (const Finding& finding : report.findings) {
    see(finding, window);
    seen.insert(key_of(finding));
  }
  std::vector<LiveChange> changes;
  for (Entry& entry : entries_) {
    if (!seen.contains(entry.key)) {
      entry.rounds = 0;
      retire_stalls(entry, window.from_ns);
    }
  }
  for (Entry& entry : entries_) {
    judge(entry, window, changes);
  }
  std::erase_if(entries_, [&](const Entry& entry) {
    const bool unobserved = entry.number == 0 && entry.rounds == 0;
    return unobserved || (entry.ended && entry.rounds == 0 && window.to_ns - *entry.total.ended_ns >= kLiveReturnNs);
  });
  std::sort(changes.begin(), changes.end(),
            [](const LiveChange& a, const LiveChange& b) { return a.number < b.number; });
  return changes;
}

std::vector<LiveChange> LiveFindings::close(int64_t now_ns) {
  std::vector<LiveChange> changes;
  for (Entry& entry : entries_) {
    if (entry.number != 0 && !entry.ended && entry.rounds == 0) {
      entry.ended = true;
      entry.total.ended_ns = now_ns;
      changes.push_back({LiveNews::kEnded, now_ns, entry.number, entry.total, explained_by(entry)});
    }
  }
  std::ranges::sort(changes, {}, &LiveChange::number);
  return changes;
}

std::vector<TimeRange> LiveFindings::needed() const {
  std::optional<int64_t> oldest_ns;
  std::optional<int64_t> oldest_hang_ns;
  for (const Entry& entry : entries_) {
    const int64_t from_ns = entry.total.window.from_ns;
    if (!entry.ended) {
      oldest_ns = std::min(oldest_ns.value_or(from_ns), from_ns);
    }
    if (!entry.ended && (entry.newest.severity == Severity::kCritical || entry.newest.severity == Severity::kWaiting)) {
      oldest_hang_ns = std::min(oldest_hang_ns.value_or(from_ns), from_ns);
    }
  }
  std::vector<TimeRange> ranges;
  if (oldest_ns) {
    ranges.push_back({*oldest_ns - kHeldBeforeNs, *oldest_ns});
  }
  if (oldest_hang_ns) {
    ranges.push_back({*oldest_hang_ns - kHeldBeforeHangNs, *oldest_hang_ns + kHeldIntoHangNs});
  }
  return ranges;
}

void AttemptNumbers::apply(Report& report) {
  std::map<int64_t, int64_t> numbers;
  for (JobAttempt& attempt : report.attempts) {
    int64_t number = 0;
    for (const auto& process : attempt.processes) {
      const auto found = known_.find(process);
      number = found == known_.end() ? number : std::max(number, found->second);
    }
    number = number == 0 ? ++last_ : number;
    if (known_.size() > kMostProcesses) {
      known_.clear();
    }
    for (const auto& process : attempt.processes) {
      known_[process] = number;
    }
    numbers[attempt.number] = number;
    attempt.number = number;
  }
  for (Finding& finding : report.findings) {
    if (finding.attempt) {
      const auto found = numbers.find(*finding.attempt);
      finding.attempt = found == numbers.end() ? std::nullopt : std::optional(found->second);
    }
  }
}

Result<std::vector<LiveChange>> LiveAnalysis::run_round(int64_t now_ns) {
  window_.advance(now_ns);
  if (!window_.has_collectives() && !window_.has_ranks()) {
    return findings_.update({}, {window_.from_ns(), now_ns});
  }
  ST_ASSIGN(ExplainResult explained,
            stalltrace::explain(window_, {.window = {}, .instance = {}, .called = window_.called()}));
  Report& report = explained.report;
  note_unrecorded_ranks(report);
  attempts_.apply(report);
  std::vector<LiveChange> changes = findings_.update(report, {window_.from_ns(), now_ns});
  window_.pin(findings_.needed());
  return changes;
}

Result<std::vector<LiveChange>> LiveAnalysis::finish(int64_t now_ns) {
  ST_ASSIGN(std::vector<LiveChange> changes, run_round(now_ns));
  std::ranges::move(findings_.close(now_ns), std::back_inserter(changes));
  return changes;
}

}  // namespace stalltrace::analysis
