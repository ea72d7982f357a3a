// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/step_evidence.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <unordered_set>

#include "analysis/evidence/reads/row_budget.h"
#include "analysis/thresholds/bounds.h"
#include "analysis/thresholds/steps.h"
#include "model/streams/node_streams.h"

namespace stalltrace::analysis {
namespace {

using Record = StepEvidence::Record;
using Link = StepEvidence::Link;

bool has_number(const Record& record) { return record.open || record.steps == 1; }
bool is_long(const Record& record) {
  return std::max({record.gpu_ns, record.peer_ns, record.network_ns}) >= kLongStepNs;
}

/// The time in which a receiver's record waited for data: it is the first of its waits.
Interval awaiting(const Record& record) {
  return {record.time.from_ns,
          record.open ? record.time.to_ns : std::min(record.time.to_ns, record.time.from_ns + record.network_ns)};
}

bool waits_for_network(const Record& record) {
  return record.open ? record.waits_for == ProxyWait::kNetwork
                     : record.network_ns >= kLongStepNs && record.network_ns >= record.gpu_ns + record.peer_ns;
}

std::span<const Record> around(const std::vector<Record>& records, Interval window, int64_t longest_ns) {
  const auto before = [](const Record& record, int64_t time_ns) { return record.time.from_ns < time_ns; };
  const auto begin = std::lower_bound(records.begin(), records.end(), window.from_ns - longest_ns, before);
  return {begin, std::lower_bound(begin, records.end(), window.to_ns, before)};
}

/// Among the records that `want` accepts, the one with the longest overlap with `time`.
template <typename Want>
const Record* nearest(std::span<const Record> records, Interval time, const Want& want) {
  const Record* best = nullptr;
  int64_t best_ns = 0;
  for (const Record& record : records) {
    const int64_t common_ns = intersect(record.time, time).length();
    if (common_ns > best_ns && want(record)) {
      best = &record;
      best_ns = common_ns;
    }
  }
  return best;
}

struct StepJudgement {
  LinkWaitKind kind;
  Interval time{0, 0};
};

/// From the sender's long step: is it before or past the awaited chunk?
std::optional<StepJudgement> by_numbers(std::span<const Record> sends, const Record& awaited, Interval time) {
  const Record* sending =
      nearest(sends, time, [](const Record& record) { return has_number(record) && (record.open || is_long(record)); });
  if (sending == nullptr) {
    return std::nullopt;
  }
  const Interval common = intersect(sending->time, time);
  if (2 * common.length() < time.length()) {
    return std::nullopt;  // it may belong to another operation
  }
  if (sending->step <= awaited.step) {
    const bool sent = sending->open ? sending->waits_for == ProxyWait::kNetwork
                                    : sending->network_ns >= std::max(sending->gpu_ns, sending->peer_ns);
    const bool no_room = sending->open ? sending->waits_for == ProxyWait::kPeer
                                       : sending->peer_ns >= std::max(sending->gpu_ns, sending->network_ns);
    return StepJudgement{sent      ? LinkWaitKind::kInFlight
                         : no_room ? LinkWaitKind::kReceiverBehind
                                   : LinkWaitKind::kSenderBehind,
                         common};
  }
  // The first step of a run represents the following ones: the awaited chunk may be one of them.
  const bool unobserved = std::any_of(sends.begin(), sends.end(), [&](const Record& record) {
    return &record != sending && has_number(record) && is_long(record) && record.step < awaited.step &&
           awaited.step - record.step < kStepsUnderWay && intersect(record.time, time).length() > 0;
  });
  const Interval handed_over{std::max(time.from_ns, sending->time.from_ns + kUnrecordedStepNs), time.to_ns};
  return unobserved || handed_over.length() <= 0 ? std::nullopt
                                                 : std::optional(StepJudgement{LinkWaitKind::kInFlight, handed_over});
}

/// From the ends of the operations: data that was all handed over and has not all arrived is in flight. An operation
/// that ended before `done_ns`, when the receiver finished its previous operation, may belong to that one.
std::optional<StepJudgement> by_ends(std::span<const Record> sends, Interval time, int64_t done_ns) {
  const Record* operation =
      nearest(sends, {time.from_ns - kUnrecordedStepNs, time.to_ns}, [](const Record&) { return true; });
  if (operation == nullptr) {
    return StepJudgement{LinkWaitKind::kSenderBehind, time};  // it has not begun
  }
  const Interval rest{std::max(time.from_ns, operation->time.to_ns), time.to_ns};
  return operation->open || operation->time.to_ns <= done_ns || rest.length() < kLongStepNs
             ? std::nullopt
             : std::optional(StepJudgement{LinkWaitKind::kInFlight, rest});
}

/// The end of the operation before this record's: operations of one connection follow each other.
int64_t previous_end(std::span<const Record> records, const Record& record) {
  int64_t end_ns = std::numeric_limits<int64_t>::min();
  for (const Record& other : records) {
    if (&other != &record && !other.open && other.steps > 1 &&
        other.time.to_ns <= record.time.from_ns + kSameMomentNs) {
      end_ns = std::max(end_ns, other.time.to_ns);
    }
  }
  return end_ns;
}

/// Ends waits that were reported while they lasted: with their operation, or at the next row.
void end_open_waits(std::vector<Record>& records) {
  int64_t operation_end_ns = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    Record& record = records[i];
    if (!record.open) {
      operation_end_ns = std::max(operation_end_ns, record.time.to_ns);
    } else if (operation_end_ns > record.time.from_ns) {
      record.time.to_ns = operation_end_ns;
    } else if (i + 1 < records.size()) {
      record.time.to_ns = records[i + 1].time.from_ns;
    }
  }
}

std::optional<StepJudgement> judge(std::span<const Record> sends, const Record& awaited, Interval time,
                                   int64_t done_ns) {
  if (has_number(awaited)) {
    if (auto verdict = by_numbers(sends, awaited, time)) {
      return verdict;
    }
  }
  return by_ends(sends, time, done_ns);
}

/// A sender without room waits for its receiver, independent of the receiver's records.
bool waits_for_room(const Record& record) {
  return record.open ? record.waits_for == ProxyWait::kPeer
                     : record.peer_ns >= kLongStepNs && record.peer_ns >= record.gpu_ns + record.network_ns;
}

class LinkTimes {
 public:
  void add(const Link& link, LinkWaitKind kind, Interval time) {
    if (time.length() > 0) {
      times_[{link.src, link.dst, kind}].push_back(time);
    }
  }
  [[nodiscard]] std::vector<LinkWait> sums() && {
    std::vector<LinkWait> waits;
    for (auto& [key, times] : times_) {
      const auto count = static_cast<int64_t>(times.size());
      const auto [src, dst, kind] = key;
      waits.push_back({src, dst, kind, IntervalSet(std::move(times)).total_ns(), count});
    }
    return waits;
  }

 private:
  std::map<std::tuple<MemberIndex, MemberIndex, LinkWaitKind>, std::vector<Interval>> times_;
};

/// The members of all communicators by their rank there.
std::map<std::tuple<AttemptIndex, CommHash, int32_t>, MemberIndex> ranks_of(const Cluster& cluster) {
  std::map<std::tuple<AttemptIndex, CommHash, int32_t>, MemberIndex> ranks;
  for (const Communicator& row : cluster.communicators()) {
    for (const CommHash name : {row.comm_id_hash, row.nccl_comm_hash}) {
      if (name != 0 && row.rank) {
        const MemberIndex member = cluster.find(row.node_id, row.pid);
        ranks[{cluster.attempt_of(member), name, *row.rank}] = member;
      }
    }
  }
  return ranks;
}

}  // namespace

Result<StepEvidence> StepEvidence::load(EventSource& source, const Cluster& cluster, const IntervalSet& windows) {
  StepEvidence evidence;
  if (windows.empty()) {
    return evidence;
  }
  const auto ranks = ranks_of(cluster);
  const int64_t slack_ns = cluster.clock().largest_shift_ns();
  const TimeRange bounds{windows.intervals().front().from_ns - slack_ns, windows.intervals().back().to_ns + slack_ns};
  RowBudget budget(windows, kMaxEvidenceRows);
  const auto add = [&](const ProxyStep& row) {
    const MemberIndex self = cluster.find(row.node_id, row.pid);
    const auto peer = ranks.find({cluster.attempt_of(self), row.comm_id_hash, row.peer.value_or(-1)});
    if (self == kNoMember || peer == ranks.end() || peer->second == kNoMember) {
      return;
    }
    const int64_t from_ns = cluster.clock().to_common(row.node_id, row.timestamp_ns);
    Record record{.time = {from_ns, row.duration_ns ? from_ns + *row.duration_ns : kFarFutureNs}};
    if (windows.covered_ns(record.time) == 0) {
      return;
    }
    if (!budget.room(row.node_id, from_ns)) {
      return;
    }
    record.step = row.step;
    record.steps = row.steps;
    record.open = !row.duration_ns;
    record.waits_for = row.waits_for;
    record.gpu_ns = row.gpu_wait_ns;
    record.peer_ns = row.peer_wait_ns;
    record.network_ns = row.network_wait_ns;
    const MemberIndex src = row.is_send ? self : peer->second;
    const MemberIndex dst = row.is_send ? peer->second : self;
    Link& link = evidence.links_[{row.comm_id_hash, row.channel, src, dst}];
    link.src = src;
    link.dst = dst;
    (row.is_send ? link.sends : link.receives).push_back(record);
  };
  ST_TRY(read_fairly(
      budget, [&] { return stream_by_node<ProxyStep>(source, bounds, nullptr, add); },
      [&] { evidence.links_.clear(); }));
  evidence.dropped_ = budget.dropped();
  for (auto& [key, link] : evidence.links_) {
    for (std::vector<Record>* side : {&link.sends, &link.receives}) {
      std::stable_sort(side->begin(), side->end(),
                       [](const Record& a, const Record& b) { return a.time.from_ns < b.time.from_ns; });
      end_open_waits(*side);
      for (const Record& record : *side) {
        link.longest_ns = std::max(link.longest_ns, std::min(record.time.length(), kLongestStallNs));
      }
    }
  }
  return evidence;
}

std::vector<LinkWait> StepEvidence::waits(const Cluster& cluster, const std::vector<MemberIndex>& members,
                                          Interval window) const {
  LinkTimes times;
  const std::unordered_set<MemberIndex> ranks(members.begin(), members.end());
  for (const auto& [key, link] : links_) {
    const bool comparable =
        cluster.clock().comparable(cluster.member(link.src).node_id, cluster.member(link.dst).node_id);
    if (!ranks.contains(link.src) || !ranks.contains(link.dst)) {
      continue;
    }
    const Interval reach{window.from_ns - link.longest_ns, window.to_ns};
    const auto sends = around(link.sends, reach, link.longest_ns);
    const auto receives = around(link.receives, reach, link.longest_ns);
    for (const Record& awaited : receives) {
      const Interval time = intersect(awaiting(awaited), window);
      if (!waits_for_network(awaited) || time.length() < kLongStepNs) {
        continue;
      }
      const auto verdict = comparable && !link.sends.empty()
                               ? judge(sends, awaited, time, previous_end(receives, awaited))
                               : std::nullopt;
      times.add(link, verdict ? verdict->kind : LinkWaitKind::kUndecided,
                intersect(verdict ? verdict->time : time, window));
    }
    for (const Record& sending : sends) {
      if (waits_for_room(sending)) {
        times.add(link, LinkWaitKind::kReceiverBehind, intersect(sending.time, window));
      }
    }
  }
  return std::move(times).sums();
}

}  // namespace stalltrace::analysis
