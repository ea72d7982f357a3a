// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/single_node.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "analysis/thresholds/bounds.h"
#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/stalls.h"
#include "model/streams/node_streams.h"

namespace stalltrace::analysis {
namespace {

/// An interval in which a rank was in no collective, and the call that ended it.
struct Gap {
  Interval time{0, 0};
  uint32_t sequence = 0;
  int64_t number = 0;
  bool trailing = false;  // no call followed while the rank was observed
  /// Samples in it of a connection to a rank on another node.
  struct Sampled {
    FlowIndex flow = kNoFlow;
    int64_t unread_ns = kForever;  // the first one with unread data
    int64_t clear_ns = 0;          // the last one before that; 0: none
  };
  std::vector<Sampled> sampled;  // of few gaps any
  int64_t unread_ns = kForever;  // of all its connections
  [[nodiscard]] bool seen() const { return unread_ns != kForever; }
  /// The last sample without unread data before the first one with, of connections that had some in one of the gaps.
  [[nodiscard]] int64_t clear_ns(const std::set<FlowIndex>& speaking) const {
    int64_t latest_ns = 0;
    for (const Sampled& one : sampled) {
      if (one.clear_ns < unread_ns && speaking.contains(one.flow)) {
        latest_ns = std::max(latest_ns, one.clear_ns);
      }
    }
    return latest_ns;
  }
};

class SingleNode {
 public:
  SingleNode(const Cluster& cluster, const Timeline& timeline, const Flows& flows, const JobEnds& ends, TimeRange range)
      : cluster_(cluster), timeline_(timeline), flows_(flows), ends_(ends), range_(range) {
    for (const Flow& flow : flows.all()) {
      if (leads_elsewhere(flow) && !gaps_.contains(flow.owner) && !timeline.sequences_of(flow.owner).empty()) {
        gaps_[flow.owner] = gaps_of(timeline.sequences_of(flow.owner));
      }
    }
    for (const Member& member : cluster.members()) {
      if (member.exit_ns && member.ended_badly()) {
        deaths_ns_[member.attempt].push_back(*member.exit_ns);
      }
    }
    for (auto& [attempt, deaths] : deaths_ns_) {
      std::ranges::sort(deaths);
    }
  }

  Status read_samples(EventSource& source) {
    Interval bounds{kForever, std::numeric_limits<int64_t>::min()};
    for (const auto& [member, gaps] : gaps_) {
      if (!gaps.empty()) {
        bounds = {std::min(bounds.from_ns, gaps.front().time.from_ns), std::max(bounds.to_ns, gaps.back().time.to_ns)};
      }
    }
    if (bounds.length() == 0) {
      return {};
    }
    const int64_t slack_ns = cluster_.clock().largest_shift_ns();
    return stream_by_node<TcpSample>(source, {bounds.from_ns - slack_ns, bounds.to_ns + slack_ns}, nullptr,
                                     [&](const TcpSample& sample) { note(sample); });
  }

  std::vector<Stall> judge() {
    for (const auto& [member, gaps] : gaps_) {
      judge_gaps(gaps);
    }
    for (MemberIndex member = 0; member < cluster_.members().size(); ++member) {
      judge_death(member, timeline_.sequences_of(member));
    }
    return std::move(stalls_);
  }

 private:
  /// True for connections to an unrecorded process whose thread serves only collectives.
  [[nodiscard]] static bool leads_elsewhere(const Flow& flow) { return flow.dedicated && flow.peer == kNoMember; }

  /// True if some of its ranks were not recorded.
  [[nodiscard]] bool incomplete(const CallSequence& sequence) const {
    const Group& group = timeline_.groups()[sequence.group];
    const int32_t nranks = group.nranks.value_or(cluster_.member(sequence.member).world_size.value_or(0));
    return !group.point_to_point && static_cast<int64_t>(group.sequences.size()) < nranks;
  }

  /// True if the others could be waiting for this rank's call of `sequence` at `number`.
  [[nodiscard]] bool is_awaited(const CallSequence& sequence, int64_t number) const {
    const Call* call = sequence.call_at(number);
    call = call != nullptr ? call : &sequence.calls.back();
    return incomplete(sequence) && synchronises(timeline_.signature(call->signature).op) &&
           !is_warming_up(timeline_.groups()[sequence.group], number) && !sequence.ends_unseen();
  }

  /// Visits all calls of a rank by arrival.
  [[nodiscard]] std::vector<Gap> gaps_of(const std::vector<uint32_t>& sequences) const {
    using Next = std::pair<int64_t, std::pair<uint32_t, size_t>>;  // arrival, sequence, index
    std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
    const auto push = [&](uint32_t sequence, size_t index) {
      const std::vector<Call>& calls = timeline_.sequences()[sequence].calls;
      while (index < calls.size() && !calls[index].present) {
        ++index;
      }
      if (index < calls.size()) {
        next.push({calls[index].arrival_ns, {sequence, index}});
      }
    };
    int64_t observed_ns = timeline_.span().to_ns;
    for (const uint32_t sequence : sequences) {
      push(sequence, 0);
      observed_ns = std::min(observed_ns, timeline_.sequences()[sequence].observed_to_ns());
    }
    std::vector<Gap> gaps;
    int64_t busy_to_ns = kForever;  // nothing is known before the first call
    uint32_t last_sequence = sequences.front();
    while (!next.empty()) {
      const auto [arrival_ns, position] = next.top();
      next.pop();
      const CallSequence& sequence = timeline_.sequences()[position.first];
      const int64_t number = sequence.first_number() + static_cast<int64_t>(position.second);
      if (arrival_ns - kStallFloorNs > busy_to_ns && busy_to_ns != kForever && is_awaited(sequence, number)) {
        gaps.push_back({.time = {busy_to_ns, arrival_ns}, .sequence = position.first, .number = number});
      }
      const int64_t end_ns = sequence.calls[position.second].end_ns();
      busy_to_ns = busy_to_ns == kForever ? end_ns : std::max(busy_to_ns, end_ns);  // unchanged if kForever
      if (sequence.calls[position.second].is_open()) {
        return gaps;  // inside with no known end
      }
      last_sequence = sequence.point_to_point ? last_sequence : position.first;
      push(position.first, position.second + 1);
    }
    const CallSequence& sequence = timeline_.sequences()[last_sequence];
    if (!sequence.calls.empty() && !sequence.destroyed && !sequence.continued && busy_to_ns < observed_ns &&
        is_awaited(sequence, sequence.next_number())) {
      gaps.push_back({.time = {busy_to_ns, observed_ns},
                      .sequence = last_sequence,
                      .number = sequence.next_number(),
                      .trailing = true});
    }
    return gaps;
  }

  void note(const TcpSample& sample) {
    const FlowIndex index = flows_.find(sample.node_id, sample.cookie);
    if (index == kNoFlow || !leads_elsewhere(flows_.flow(index)) || sample.bytes_received == 0) {
      return;
    }
    const auto found = gaps_.find(flows_.flow(index).owner);
    if (found == gaps_.end()) {
      return;
    }
    const int64_t time_ns = cluster_.clock().to_common(sample.node_id, sample.timestamp_ns);
    std::vector<Gap>& gaps = found->second;
    const auto gap =
        std::partition_point(gaps.begin(), gaps.end(), [&](const Gap& g) { return g.time.to_ns <= time_ns; });
    if (gap == gaps.end() || gap->time.from_ns > time_ns) {
      return;
    }
    auto sampled = std::ranges::find(gap->sampled, index, &Gap::Sampled::flow);
    if (sampled == gap->sampled.end()) {
      sampled = gap->sampled.insert(sampled, {.flow = index});
    }
    if (sample.unread_bytes > 0) {
      sampled->unread_ns = std::min(sampled->unread_ns, time_ns);
      gap->unread_ns = std::min(gap->unread_ns, time_ns);
    } else if (time_ns < sampled->unread_ns) {
      sampled->clear_ns = std::max(sampled->clear_ns, time_ns);
    }
  }

  /// Connections that had unread data in one of the gaps. An idle connection, without any, proves nothing.
  [[nodiscard]] static std::set<FlowIndex> speaking(const std::vector<Gap>& gaps) {
    std::set<FlowIndex> flows;
    for (const Gap& gap : gaps) {
      for (const Gap::Sampled& one : gap.sampled) {
        if (one.unread_ns != kForever) {
          flows.insert(one.flow);
        }
      }
    }
    return flows;
  }

  /// Idle connections are sampled a few times a second, and gaps may be shorter: from when on the others wait in a gap
  /// that was not sampled is extrapolated from those that were. It is the earliest time after the start of a gap from
  /// which on most samples had unread data: ranks that no one waits for are ahead of each other in some gaps, too.
  /// kForever if there is no such time.
  [[nodiscard]] static int64_t usual_wait_ns(const std::vector<Gap>& gaps, const std::set<FlowIndex>& speaking) {
    std::vector<int64_t> unread;
    std::vector<int64_t> clear;
    for (const Gap& gap : gaps) {
      if (gap.seen()) {
        unread.push_back(gap.unread_ns - gap.time.from_ns);
      }
      if (const int64_t clear_ns = gap.clear_ns(speaking); clear_ns != 0) {
        clear.push_back(clear_ns - gap.time.from_ns);
      }
    }
    std::ranges::sort(unread);
    std::ranges::sort(clear);
    for (auto at = unread.begin(); unread.end() - at >= kSingleNodeSightings; ++at) {
      const int64_t against = clear.end() - std::ranges::upper_bound(clear, *at);
      if (kSingleNodeSightingsPerDoubt * against <= unread.end() - at - (kSingleNodeSightings - 1)) {
        return *at;
      }
    }
    return kForever;
  }

  void judge_gaps(const std::vector<Gap>& gaps) {
    const std::set<FlowIndex> flows = speaking(gaps);
    const int64_t usual_ns = usual_wait_ns(gaps, flows);
    for (const Gap& gap : gaps) {
      const int64_t inferred_ns = usual_ns == kForever ? kForever : gap.time.from_ns + usual_ns;
      const int64_t clear_ns = gap.clear_ns(flows);
      const bool against = !gap.seen() && clear_ns > inferred_ns;
      const int64_t from_ns = gap.seen() ? std::min(gap.unread_ns, std::max(clear_ns, inferred_ns))
                              : against  ? kForever
                                         : inferred_ns;
      if (from_ns >= gap.time.to_ns || (gap.trailing && (!gap.seen() || gap.time.to_ns - from_ns < kHangNs))) {
        continue;
      }
      const CallSequence& sequence = timeline_.sequences()[gap.sequence];
      const Interval window{from_ns, gap.time.to_ns};
      if (window.length() <= kStallFloorNs) {
        continue;
      }
      if (gap.trailing) {
        Stall stall = begin(sequence, gap.number, {StallPart::kAbsent, VerdictReason::kHang, 0, kHangNs, window});
        stall.kind = MissingRank{.hang = {{HangKind::kOutside, sequence.member, {}}}, .calling_tid = sequence.tid};
        keep(std::move(stall));
      } else {
        Stall stall =
            begin(sequence, gap.number, {StallPart::kLate, VerdictReason::kTooLong, 0, kStallFloorNs, window});
        stall.kind = LateArrival{sequence.member, sequence.tid};
        keep(std::move(stall));
      }
    }
  }

  /// All of the verdict's window is lost: its length is the value.
  [[nodiscard]] Stall begin(const CallSequence& sequence, int64_t number, const Verdict& verdict) const {
    const Call* call = sequence.call_at(number);
    Stall stall{.group = sequence.group,
                .number = number,
                .signature = (call != nullptr ? call : &sequence.calls.back())->signature,
                .verdict = verdict,
                .window = verdict.window,
                .lost_ns = verdict.window.length()};
    stall.verdict.value_ns = stall.lost_ns;
    stall.single_node = true;
    stall.suspects = {sequence.member};
    stall.members = {sequence.member};
    return stall;
  }

  /// A rank that hung before it died is a victim, and so is one that was asked to end; one whose call failed may be.
  /// How long the others hang is not observed: until their watchdogs end them.
  void judge_death(MemberIndex member, const std::vector<uint32_t>& sequences) {
    const Member& process = cluster_.member(member);
    if (!process.exit_ns || !process.ended_badly() || timeline_.span().to_ns - *process.exit_ns < kHangNs ||
        ends_.of(member) != nullptr || follows_another(member)) {
      return;
    }
    const CallSequence* used = nullptr;
    for (const uint32_t index : sequences) {
      const CallSequence& sequence = timeline_.sequences()[index];
      if (sequence.calls.empty() || sequence.destroyed || sequence.aborted || sequence.continued ||
          !incomplete(sequence)) {
        continue;
      }
      const Call& last = sequence.calls.back();
      if (last.end_ns() == kForever && *process.exit_ns - last.arrival_ns >= kHangNs) {
        return;
      }
      if (last.is_open() && !sequence.ends_unseen() && ended_like_a_failed_call(process)) {
        return;
      }
      used = used == nullptr || sequence.last_arrival_ns > used->last_arrival_ns ? &sequence : used;
    }
    if (used == nullptr || used->ends_unseen()) {
      return;
    }
    const Interval window{*process.exit_ns, std::min(timeline_.span().to_ns, *process.exit_ns + kDeathsApartNs)};
    Stall stall = begin(*used, used->end_number(), {StallPart::kAbsent, VerdictReason::kHang, 0, kHangNs, window});
    stall.kind = MissingRank{.hang = {{HangKind::kDead, member, {}}}, .calling_tid = used->tid};
    keep(std::move(stall));
  }

  /// True if another process of its job attempt ended badly before it, within the time in which deaths follow each
  /// other.
  [[nodiscard]] bool follows_another(MemberIndex member) const {
    const Member& process = cluster_.member(member);
    const auto deaths = deaths_ns_.find(process.attempt);
    if (deaths == deaths_ns_.end() || !process.exit_ns) {
      return false;
    }
    const auto earlier = std::ranges::upper_bound(deaths->second, *process.exit_ns - kDeathsApartNs);
    return earlier != deaths->second.end() && *earlier < *process.exit_ns;
  }

  void keep(Stall stall) {
    if (range_.from_ns <= stall.window.to_ns && range_.to_ns > stall.window.from_ns &&
        static_cast<int64_t>(stalls_.size()) < kMaxStalls) {
      stalls_.push_back(std::move(stall));
    }
  }

  const Cluster& cluster_;
  const Timeline& timeline_;
  const Flows& flows_;
  const JobEnds& ends_;
  TimeRange range_;
  std::map<MemberIndex, std::vector<Gap>> gaps_;
  std::map<AttemptIndex, std::vector<int64_t>> deaths_ns_;  // ascending: processes that ended badly
  std::vector<Stall> stalls_;
};

}  // namespace

Result<std::vector<Stall>> find_single_node_stalls(EventSource& source, const Cluster& cluster,
                                                   const Timeline& timeline, const Flows& flows, const JobEnds& ends,
                                                   TimeRange range) {
  SingleNode search(cluster, timeline, flows, ends, range);
  ST_TRY(search.read_samples(source));
  return search.judge();
}

}  // namespace stalltrace::analysis
