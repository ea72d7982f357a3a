// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/evidence.h"

#include <algorithm>

#include "analysis/thresholds/network.h"
#include "analysis/thresholds/ranks.h"

namespace stalltrace::analysis {

FlowLoss EvidenceStore::loss(FlowIndex flow, Interval window) const {
  FlowLoss loss{.window = window};
  if (flow >= loss_sets_.size()) {
    return loss;
  }
  const FlowEvents& events = flow_events_[flow];
  loss.covered_ns = loss_sets_[flow].covered_ns(window);
  loss.recovery_ns = recovery_sets_[flow].covered_ns(window);
  const auto inside = [&](const std::vector<int64_t>& times) {
    return std::ranges::upper_bound(times, window.to_ns) - std::ranges::lower_bound(times, window.from_ns);
  };
  loss.timeouts = inside(events.timeouts);
  loss.early_timeouts = inside(events.early_timeouts);
  const std::span<const Retransmit> repeated = retransmits(flow, window);
  loss.retransmits = static_cast<int64_t>(repeated.size());
  loss.first_event = repeated.empty() ? 0 : repeated.front().id;
  return loss;
}

std::span<const Retransmit> EvidenceStore::retransmits(FlowIndex flow, Interval window) const {
  if (flow >= flow_events_.size()) {
    return {};
  }
  const auto before = [](const Retransmit& segment, int64_t time_ns) { return segment.time_ns < time_ns; };
  const std::vector<Retransmit>& all = flow_events_[flow].retransmits;
  const auto begin = std::lower_bound(all.begin(), all.end(), window.from_ns, before);
  return {begin, std::lower_bound(begin, all.end(), window.to_ns, before)};
}

FlowDelta EvidenceStore::delta(FlowIndex flow, Interval window) const {
  FlowDelta delta;
  if (flow >= samples_.size() || samples_[flow].empty()) {
    return delta;
  }
  const std::vector<SampleRecord>& samples = samples_[flow];
  const auto before = [](int64_t time_ns) { return [=](const SampleRecord& s) { return s.time_ns < time_ns; }; };
  auto first = std::partition_point(samples.begin(), samples.end(), before(window.from_ns));
  const auto last = std::partition_point(first, samples.end(), before(window.to_ns));
  delta.samples = last - first;
  for (auto sample = first; sample != last; ++sample) {
    delta.unread += sample->unread_bytes > 0 ? 1 : 0;
    delta.unread_bytes += sample->unread_bytes;
  }
  first = first == samples.begin() ? first : first - 1;
  const SampleRecord& begin = *first;
  const SampleRecord& end = last == samples.end() ? samples.back() : *last;
  delta.span_ns = end.time_ns - begin.time_ns;
  delta.busy_ns = static_cast<int64_t>(end.busy_ns - begin.busy_ns);
  delta.receiver_limited_ns = static_cast<int64_t>(end.receiver_limited_ns - begin.receiver_limited_ns);
  delta.acked_bytes = end.bytes_acked - begin.bytes_acked;
  delta.repeated = end.total_retrans - begin.total_retrans;
  delta.needless = end.dsack_dups - begin.dsack_dups;
  return delta;
}

bool EvidenceStore::repeats_needlessly(FlowIndex flow, Interval window) const {
  const FlowDelta seen = delta(flow, {window.from_ns, window.to_ns + kNeedlessReportedNs});
  return seen.needless > 0 && static_cast<double>(seen.needless) >= kNeedlessShare * static_cast<double>(seen.repeated);
}

AckGap EvidenceStore::silence(FlowIndex flow, Interval window) const {
  AckGap longest;
  if (flow >= samples_.size()) {
    return longest;
  }
  const std::vector<SampleRecord>& samples = samples_[flow];
  const auto same_silence = [](const SampleRecord& a, const SampleRecord& b) {
    return a.unacked_bytes > 0 && b.unacked_bytes > 0 && a.bytes_acked == b.bytes_acked;
  };
  auto first = std::ranges::partition_point(
      samples, [&](const SampleRecord& sample) { return sample.time_ns < window.from_ns; });
  first = first == samples.begin() ? first : first - 1;  // an unchanged sample is not written: it holds until the next
  while (first != samples.begin() && first != samples.end() && same_silence(first[-1], *first)) {
    --first;
  }
  while (first != samples.end() && first->time_ns < window.to_ns) {
    auto next = first;
    AckGap silence{.acked_bytes = first->bytes_acked};
    while (next != samples.end() && same_silence(*first, *next)) {
      silence.backoff = std::max(silence.backoff, next->backoff);
      silence.last_seen_ns = next->time_ns;
      ++next;
    }
    if (next != first) {
      const int64_t last_ns = std::max(silence.last_seen_ns, std::min(window.to_ns, ends_ns_[flow]));
      silence.time = {first->time_ns, next != samples.end() ? next->time_ns : last_ns};
      const auto rank = [&](const AckGap& one) {
        return std::pair(one.backoff >= kSilentBackoff, intersect(one.time, window).length());
      };
      if (intersect(silence.time, window).length() > 0 && rank(silence) > rank(longest)) {
        longest = silence;
      }
    }
    first = std::max(next, first + 1);
  }
  return longest;
}

bool EvidenceStore::has_waits(MemberIndex member) const {
  return member < waits_.size() &&
         std::ranges::any_of(waits_[member], [](const Waits& waits) { return !waits.records.empty(); });
}

WaitShare EvidenceStore::share(MemberIndex member, WaitKind kind, Interval window, Competitors competitors,
                               int32_t tid) const {
  std::map<int32_t, WaitShare> threads;
  if (member >= waits_.size()) {
    return {};
  }
  const Waits& waits = waits_[member][static_cast<size_t>(kind)];
  const std::vector<WaitRecord>& records = waits.records;
  auto record = std::partition_point(records.begin(), records.end(), [&](const WaitRecord& r) {
    return r.window.from_ns < window.from_ns - waits.longest_ns;
  });
  std::map<int32_t, int64_t> competitor_best;
  for (; record != records.end() && record->window.from_ns < window.to_ns; ++record) {
    const int64_t overlap_ns = intersect(record->window, window).length();
    if (overlap_ns == 0 || (tid != 0 && record->tid != tid) ||
        (competitors != Competitors::kAll && record->idle_before)) {
      continue;
    }
    // A summary has an amount but no times: it counts towards the overlapping stall, up to the overlap.
    int64_t waited_ns = std::min(record->waited_ns, overlap_ns);
    if (competitors == Competitors::kOutsideJob) {
      const bool mostly =
          static_cast<double>(record->competitor_ns) >= kMainCompetitorShare * static_cast<double>(record->waited_ns);
      waited_ns = record->competitor == 0 || record->competitor_belongs ? 0
                  : mostly                                              ? waited_ns
                                                                        : std::min(waited_ns, record->competitor_ns);
    }
    WaitShare& thread = threads[record->tid];
    thread.tid = record->tid;
    thread.covered_ns += waited_ns;
    thread.open = thread.open || record->open;
    ++thread.occasions;
    if (record->competitor != 0 && waited_ns > competitor_best[record->tid]) {
      competitor_best[record->tid] = waited_ns;
      thread.competitor = names_[record->competitor];
      thread.competitor_pid = record->competitor_pid;
      thread.competitor_belongs = record->competitor_belongs;
    }
  }
  WaitShare best;
  for (auto& [id, thread] : threads) {
    thread.covered_ns = std::min(thread.covered_ns, window.length());
    if (thread.covered_ns > best.covered_ns) {
      best = thread;
    }
  }
  return best;
}

}  // namespace stalltrace::analysis
