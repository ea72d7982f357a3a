// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analysis/thresholds/stalls.h"
#include "analysis/timeline/attempts/attempts.h"
#include "analysis/timeline/batches/batches.h"
#include "analysis/timeline/clock_offsets/clock_offsets.h"
#include "analysis/timeline/communicators/counted_names.h"
#include "analysis/timeline/communicators/match_unknown.h"
#include "analysis/timeline/communicators/unrecorded_ranks.h"
#include "analysis/timeline/cuda_graphs/captured_calls.h"
#include "analysis/timeline/cuda_graphs/unsure_numbers.h"
#include "analysis/timeline/sequence_table.h"
#include "analysis/timeline/signature_table.h"
#include "base/text.h"
#include "model/events/loss_sources.h"
#include "model/streams/node_streams.h"

namespace stalltrace::analysis {
namespace {

bool failed(const Collective& row) { return call_failed(row.library, row.return_code.value_or(0)); }

uint32_t pack(int64_t duration_ns) {
  return static_cast<uint32_t>(std::clamp<int64_t>(duration_ns / kNsPerUs, 0, kOpenDuration - 1));
}

uint32_t pack_duration(std::optional<int64_t> duration_ns) { return duration_ns ? pack(*duration_ns) : kOpenDuration; }

}  // namespace

void CallSequence::move(const ClockMove& move) {
  shift_ns = move.after.shift_ns;
  if (move.none() || calls.empty()) {
    return;
  }
  const bool drifts = move.after.drift.rate != 0;
  for (Call& call : calls) {
    if (!call.present) {
      continue;
    }
    const int64_t end_ns = call.end_ns();
    call.arrival_ns = move(call.arrival_ns);
    if (drifts && end_ns != kForever) {  // calls that ended together still do
      call.duration_us = pack(move(end_ns) - call.arrival_ns + kNsPerUs / 2);
    }
  }
  first_arrival_ns = move(first_arrival_ns);
  last_arrival_ns = move(last_arrival_ns);
  first_open_ns = first_open_ns == kForever ? kForever : move(first_open_ns);
  abort_ns = abort_ns == kForever ? kForever : move(abort_ns);
}

class TimelineBuilder {
 public:
  TimelineBuilder(Timeline& timeline, Cluster& cluster)
      : timeline_(timeline),
        cluster_(cluster),
        first_joined_(static_cast<MemberIndex>(cluster.members().size())),
        sequence_table_(timeline.sequences_, cluster),
        signature_table_(timeline.signatures_) {}

  /// The rows of each node in time order.
  void add(const Collective& row) {
    add_row(row);
    while (first_joined_ + joined_ns_.size() < cluster_.members().size()) {
      joined_ns_.push_back(row.timestamp_ns);
    }
  }

  void finish(const std::vector<Loss>& losses, const std::vector<GraphUse>& graph_uses) {
    order_by_time();
    find_attempts(cluster_, timeline_.sequences_, timeline_.communicator_calls_);
    mark_batches(timeline_.sequences_);  // by each host's own clock, as it was recorded
    align_hosts(losses);
    add_silent_members();
    sequence_table_.mark_continued();
    match_unsure_by_time(graph_uses);
    match_contradicted_by_time();
    std::unordered_map<uint64_t, uint32_t> known;
    std::vector<uint32_t> unknown;
    for (uint32_t i = 0; i < timeline_.sequences_.size(); ++i) {
      CallSequence& sequence = timeline_.sequences_[i];
      if (sequence.hash == 0) {
        unknown.push_back(i);
        timeline_.unknown_rows_ += static_cast<int64_t>(sequence.calls.size());
        continue;
      }
      const auto [found, fresh] =
          known.try_emplace(sequence_table_.group_key(i), static_cast<uint32_t>(timeline_.groups_.size()));
      if (fresh) {
        timeline_.groups_.push_back({.hash = sequence.hash, .point_to_point = sequence.point_to_point});
      }
      put(found->second, i);
    }
    UnknownMatches matches = match_unknown_sequences(timeline_.sequences_, unknown, cluster_);
    for (size_t i = 0; i < matches.groups.size(); ++i) {
      const std::vector<uint32_t>& sequences = matches.groups[i];
      timeline_.groups_.push_back(
          {.nccl_hash = matches.nccl_hashes[i], .point_to_point = timeline_.sequences_[sequences[0]].point_to_point});
      for (const uint32_t sequence : sequences) {
        put(static_cast<uint32_t>(timeline_.groups_.size() - 1), sequence);
      }
    }
    captured_.leave_out(sequence_table_, timeline_.sequences_, timeline_.groups_);
    unmatched_ = std::move(matches.unmatched);
    if (!unmatched_.empty()) {
      timeline_.notes_.push_back(fmt::format(
          "{} on communicators made before tracing began could not be matched across ranks: the calls of no "
          "other rank end at the same times, those on several communicators do, or there are too many to compare. "
          "Whom these calls wait for is not known",
          count_of(static_cast<int64_t>(unmatched_.size()), "call sequence")));
    }
    if (const int64_t skipped = skipped_ + sequence_table_.skipped(); skipped > 0) {
      timeline_.notes_.push_back(
          fmt::format("{} collectives carry an impossible sequence number and were left out", skipped));
    }
  }

  /// After finish(): as in UnknownMatches.
  [[nodiscard]] const std::vector<uint32_t>& unmatched() const { return unmatched_; }

 private:
  void add_row(const Collective& row) {
    if (!moves_data(row.op)) {
      note_communicator_call(row);
      return;
    }
    if (row.completion == Completion::kCaptured) {
      captured_.note(row);
      return;
    }
    ++timeline_.rows_;
    if (row.seq && (*row.seq < 0 || *row.seq > kMaxSeq)) {
      ++skipped_;
      return;
    }
    CallSequence* sequence = sequence_table_.find(row, timeline_.rows_);
    if (sequence == nullptr) {
      return;
    }
    const int64_t arrival_ns = row.timestamp_ns + sequence->shift_ns;
    Call call{arrival_ns, pack_duration(row.duration_ns), signature_table_.index_of(row), row.completion, true};
    call.launched = row.launch_ns.has_value();
    call.on_device = row.kernel_start_ns.has_value();
    if (failed(row)) {  // the rank left it with an error, and it never ended
      sequence->abort_ns = row.duration_ns ? call.end_ns() : arrival_ns;
      call.duration_us = kOpenDuration;
    }
    timeline_.span_.from_ns = std::min(timeline_.span_.from_ns, arrival_ns);
    timeline_.span_.to_ns = std::max(timeline_.span_.to_ns, call.end_ns() != kForever ? call.end_ns() : arrival_ns);
    sequence->tid = row.tid;
    SequenceTable::insert(
        *sequence, call, row.seq,
        row.kernel_start_ns && row.kernel_end_ns ? pack(*row.kernel_start_ns - row.timestamp_ns) : kOpenDuration);
  }

  void match_unsure_by_time(const std::vector<GraphUse>& graph_uses) {
    if (const size_t unsure = forget_unsure_names(graph_uses, cluster_, timeline_.sequences_); unsure > 0) {
      timeline_.notes_.push_back(fmt::format(
          "ranks launched CUDA graphs, and {} of theirs {} made before tracing began: the ranks may number the calls "
          "beside the graphs differently, so these are matched by their times alone",
          count_of(static_cast<int64_t>(unsure), "communicator"), unsure == 1 ? "was" : "were"));
    }
  }

  void match_contradicted_by_time() {
    if (const size_t forgotten = forget_contradicted_names(cluster_, timeline_.sequences_); forgotten > 0) {
      timeline_.notes_.push_back(
          fmt::format("NCCL's counts of calls on {} made before tracing began do not agree with when the calls were "
                      "made: these are "
                      "matched by their times alone",
                      count_of(static_cast<int64_t>(forgotten), "communicator")));
    }
  }

  /// Numbers sequences, signatures and members in the order in which their first rows would have come in time order:
  /// among equals the first one counts.
  void order_by_time() {
    std::ranges::stable_sort(timeline_.communicator_calls_, {}, &CommunicatorCall::called_ns);
    sequence_table_.order_by_time();
    if (const std::vector<uint16_t> numbers = signature_table_.order_by_time(); !numbers.empty()) {
      for (CallSequence& sequence : timeline_.sequences_) {
        for (Call& call : sequence.calls) {
          call.signature = call.present ? numbers[call.signature] : call.signature;
        }
      }
    }
    if (std::ranges::is_sorted(joined_ns_)) {
      return;
    }
    std::vector<MemberIndex> order(joined_ns_.size());
    std::iota(order.begin(), order.end(), first_joined_);
    std::ranges::stable_sort(order, {}, [this](MemberIndex member) { return joined_ns_[member - first_joined_]; });
    cluster_.reorder_members(first_joined_, order);
    std::vector<MemberIndex> numbers(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      numbers[order[i] - first_joined_] = static_cast<MemberIndex>(first_joined_ + i);
    }
    const auto renumber = [&](MemberIndex& member) {
      member = member < first_joined_ ? member : numbers[member - first_joined_];
    };
    for (CallSequence& sequence : timeline_.sequences_) {
      renumber(sequence.member);
    }
    for (CommunicatorCall& call : timeline_.communicator_calls_) {
      renumber(call.member);
    }
  }

  /// Before this, each host's times are on its own clock.
  void align_hosts(const std::vector<Loss>& losses) {
    if (cluster_.clock().hosts() < 2) {
      return;
    }
    const Clock before = cluster_.clock();
    std::set<std::pair<MemberIndex, CommHash>> made;  // communicators whose creation is recorded
    for (const CommunicatorCall& call : timeline_.communicator_calls_) {
      if (call.op != Operation::kCommDestroy && call.op != Operation::kCommAbort) {
        made.insert({call.member, call.hash});
      }
    }
    std::set<NodeId> lossy;
    for (const Loss& loss : losses) {
      if (loss.count > 0 && may_lose_transfers(loss.source)) {
        lossy.insert(loss.node_id);
      }
    }
    const OffsetBounds bounds = bound_offsets(
        timeline_.sequences_, timeline_.signatures_, cluster_,
        [this](uint32_t sequence) { return sequence_table_.group_key(sequence); },
        [&](uint32_t index) {
          const CallSequence& sequence = timeline_.sequences_[index];
          return made.contains({sequence.member, sequence.hash}) &&
                 !lossy.contains(cluster_.member(sequence.member).node_id);
        });
    cluster_.align(bounds);
    const auto move_of = [&](NodeId node) {
      return ClockMove{.before = before.line(node), .after = cluster_.clock().line(node)};
    };
    Interval span{kForever, std::numeric_limits<int64_t>::min()};
    for (CallSequence& sequence : timeline_.sequences_) {
      sequence.move(move_of(cluster_.member(sequence.member).node_id));
      for (const Call& call : sequence.calls) {
        if (call.present) {
          span.from_ns = std::min(span.from_ns, call.arrival_ns);
          span.to_ns = std::max(span.to_ns, call.end_ns() != kForever ? call.end_ns() : call.arrival_ns);
        }
      }
    }
    timeline_.span_ = span;
    for (CommunicatorCall& call : timeline_.communicator_calls_) {
      const ClockMove move = move_of(cluster_.member(call.member).node_id);
      call.arrival_ns = move(call.arrival_ns);
      call.end_ns = call.end_ns == kForever ? kForever : move(call.end_ns);
    }
    for (auto& [call, time_ns] : aborts_) {
      time_ns = move_of(std::get<NodeId>(call))(time_ns);
    }
  }

  void note_communicator_call(const Collective& row) {
    if (!is_communicator_call(row.op)) {
      return;
    }
    CommunicatorCall call{
        .member = cluster_.join(row.node_id, row.pid), .library = row.library, .op = row.op, .hash = row.comm_id_hash};
    if (call.member == kNoMember) {
      return;
    }
    const int64_t shift_ns = cluster_.clock().shift_ns(row.node_id);
    call.called_ns = row.timestamp_ns;
    call.arrival_ns = row.timestamp_ns + shift_ns;
    call.end_ns = row.end_ns() ? *row.end_ns() + shift_ns : kForever;
    call.rank = row.rank;
    call.nranks = row.nranks;
    call.return_code = row.return_code;
    if (row.op == Operation::kCommAbort) {
      aborts_[{row.node_id, row.pid, row.comm_ptr, row.comm_id_hash}] = call.arrival_ns;
    }
    timeline_.communicator_calls_.push_back(call);
  }

  /// A rank that made a communicator but called nothing on it gets a sequence as well, so that its absence is visible.
  void add_silent_members() {
    std::map<std::tuple<AttemptIndex, CommHash, int32_t>, MemberIndex> members;
    std::set<std::tuple<MemberIndex, CommHash, uint64_t>> with_calls;
    const size_t sequences = timeline_.sequences_.size();
    for (size_t i = 0; i < sequences; ++i) {
      const CallSequence& sequence = timeline_.sequences_[i];
      if (!sequence.point_to_point) {
        with_calls.insert({sequence.member, sequence.hash, sequence.comm_ptr});
      }
    }
    for (const Communicator& row : cluster_.communicators()) {
      const MemberIndex member = cluster_.find(row.node_id, row.pid);
      if (row.comm_id_hash == 0 || !row.rank || member == kNoMember) {
        continue;
      }
      members[{cluster_.attempt_of(member), row.comm_id_hash, *row.rank}] = member;
      if (!with_calls.contains({member, row.comm_id_hash, row.comm_ptr})) {
        sequence_table_.add_silent(row, member, {row.node_id, row.pid, row.comm_ptr, row.comm_id_hash});
      }
    }
    std::set<uint64_t> pairs[2];  // by whether the receiver has a sequence
    for (uint32_t i = 0; i < sequences; ++i) {
      if (timeline_.sequences_[i].point_to_point) {
        pairs[sequence_table_.key(i).receives ? 1 : 0].insert(sequence_table_.group_key(i));
      }
    }
    for (uint32_t i = 0; i < sequences; ++i) {
      const SequenceKey key = sequence_table_.key(i);
      if (!timeline_.sequences_[i].point_to_point || key.hash == 0 ||
          pairs[key.receives ? 0 : 1].contains(sequence_table_.group_key(i))) {
        continue;
      }
      const auto peer = members.find({cluster_.attempt_of(timeline_.sequences_[i].member), key.hash, key.peer});
      if (peer != members.end() && timeline_.sequences_[i].comm_rank) {
        const Member& process = cluster_.member(peer->second);
        sequence_table_.add_silent(
            {.node_id = process.node_id, .pid = process.pid, .comm_id_hash = key.hash, .rank = key.peer}, peer->second,
            {process.node_id, process.pid, 0, key.hash, *timeline_.sequences_[i].comm_rank, !key.receives});
      }
    }
  }

  /// Notes a failure or abort only if the rank made no later calls. Calls that seem to end after it did not end.
  void note_abort(CallSequence& sequence, const SequenceKey& key) const {
    const auto abort = aborts_.find({key.node, key.pid, key.comm_ptr, key.hash});
    if (abort != aborts_.end()) {
      sequence.abort_ns = std::min(sequence.abort_ns, abort->second);
    }
    sequence.aborted = sequence.abort_ns != kForever && sequence.abort_ns >= sequence.last_arrival_ns;
    if (!sequence.aborted) {
      sequence.abort_ns = kForever;
      return;
    }
    sequence.destroyed = false;
    for (size_t i = sequence.calls.size(); i-- > 0 && sequence.calls[i].end_ns() >= sequence.abort_ns;) {
      sequence.calls[i].duration_us = kOpenDuration;
      sequence.first_open_ns =
          std::min(sequence.first_open_ns, sequence.calls[i].is_open() ? sequence.calls[i].arrival_ns : kForever);
      sequence.last_ended_seq = std::min(sequence.last_ended_seq, sequence.first_seq + static_cast<int64_t>(i) - 1);
    }
  }

  void put(uint32_t group_index, uint32_t sequence_index) {
    Group& group = timeline_.groups_[group_index];
    CallSequence& sequence = timeline_.sequences_[sequence_index];
    note_abort(sequence, sequence_table_.key(sequence_index));
    sequence.group = group_index;
    group.attempt = cluster_.attempt_of(sequence.member);
    group.sequences.push_back(sequence_index);
    if (group.point_to_point) {
      group.nranks = 2;
    } else if (sequence.nranks) {
      group.nranks = std::max(group.nranks.value_or(0), *sequence.nranks);
    }
  }

  Timeline& timeline_;
  Cluster& cluster_;
  MemberIndex first_joined_;        // members before it were known from communicators
  std::vector<int64_t> joined_ns_;  // of the others: time of the first row of each, on the clock of its node
  SequenceTable sequence_table_;
  SignatureTable signature_table_;
  std::map<std::tuple<NodeId, int32_t, uint64_t, CommHash>, int64_t> aborts_;
  CapturedCalls captured_;
  std::vector<uint32_t> unmatched_;
  int64_t skipped_ = 0;
};

Result<Timeline> Timeline::load(EventSource& source, Cluster& cluster) {
  Timeline timeline;
  TimelineBuilder builder(timeline, cluster);
  ST_TRY(stream_by_node<Collective>(source, {}, nullptr, [&](const Collective& row) { builder.add(row); }));
  ST_ASSIGN(const std::vector<Loss> losses, source.losses());
  ST_ASSIGN(const std::vector<GraphUse> graph_uses, source.graph_uses());
  builder.finish(losses, graph_uses);
  if (timeline.rows_ == 0) {
    timeline.span_ = {0, 0};
    for (const CommunicatorCall& call : timeline.communicator_calls_) {
      timeline.span_.from_ns =
          timeline.span_.from_ns == 0 ? call.arrival_ns : std::min(timeline.span_.from_ns, call.arrival_ns);
      timeline.extend(call.end_ns == kForever ? call.arrival_ns : call.end_ns);
    }
  }
  for (const Node& node : cluster.nodes()) {
    if (node.ended_ns) {
      timeline.extend(cluster.clock().to_common(node.node_id, *node.ended_ns));
    }
  }
  timeline.bound_observation(cluster);
  timeline.index_members();
  for (const Communicator& row : cluster.communicators()) {
    if (is_graph_communicator(row.comm_ptr)) {
      timeline.graphs_.insert({row.comm_id_hash, row.parent_hash});
    }
  }
  find_unrecorded_ranks(cluster, losses, timeline.sequences_, timeline.groups_);
  doubt_whole_groups(builder.unmatched(), timeline.sequences_, cluster, timeline.groups_);
  return timeline;
}

std::optional<int64_t> Timeline::payload(uint32_t group, uint16_t index) const {
  const CallSignature& signature = signatures_[index];
  const Group& of = groups_[group];
  if (!has_a_part_per_rank(signature.op)) {
    return signature.bytes;
  }
  int64_t whole = 0;  // of a communicator made before tracing began the number of ranks is the launcher's, for the job
  const bool known = signature.bytes != CallSignature::kUnknownBytes && of.hash != 0 && of.nranks &&
                     !__builtin_mul_overflow(signature.bytes, int64_t{*of.nranks}, &whole);
  return known ? std::optional(whole) : std::nullopt;
}

void Timeline::index_members() {
  for (uint32_t i = 0; i < sequences_.size(); ++i) {
    const size_t member = sequences_[i].member;
    by_member_.resize(std::max(by_member_.size(), member + 1));
    by_member_[member].push_back(i);
  }
  called_on_.resize(by_member_.size());
  for (size_t member = 0; member < by_member_.size(); ++member) {
    for (const uint32_t sequence : by_member_[member]) {
      called_on_[member].insert(sequences_[sequence].hash);
    }
  }
}

bool Timeline::is_graph_of(CommHash graph, CommHash communicator) const {
  return graphs_.contains({graph, communicator});
}

bool Timeline::calls_on(MemberIndex member, CommHash communicator) const {
  return member < called_on_.size() && called_on_[member].contains(communicator);
}

const std::vector<uint32_t>& Timeline::sequences_of(MemberIndex member) const {
  static const std::vector<uint32_t> kNone;
  return member < by_member_.size() ? by_member_[member] : kNone;
}

/// True for a rank's Sends to itself and their Recvs, which wait for no other rank.
bool Timeline::is_with_itself(const Group& group) const {
  return group.point_to_point && std::all_of(group.sequences.begin(), group.sequences.end(), [&](uint32_t sequence) {
           return sequences_[sequence].member == sequences_[group.sequences[0]].member;
         });
}

/// Until when each rank was observed, what each group is known to have completed, and whose ends are never seen.
void Timeline::bound_observation(const Cluster& cluster) {
  std::unordered_map<NodeId, int64_t> node_ends;
  for (const Node& node : cluster.nodes()) {
    if (node.ended_ns) {
      node_ends[node.node_id] = cluster.clock().to_common(node.node_id, *node.ended_ns);
    }
  }
  std::set<MemberIndex> unseen;
  std::set<MemberIndex> left_unobserved;
  for (CallSequence& sequence : sequences_) {
    const Member& member = cluster.member(sequence.member);
    sequence.exit_ns = member.exit_ns.value_or(kForever);
    if (const auto end = node_ends.find(member.node_id); end != node_ends.end()) {
      sequence.node_end_ns = end->second;
    }
    if (sequence.last_ended_seq >= 0 && !sequence.continued) {
      int64_t& newest = groups_[sequence.group].last_ended_number;
      newest = std::max(newest, sequence.last_ended_seq + sequence.number_offset);
    }
    if (is_with_itself(groups_[sequence.group])) {
      continue;
    }
    sequence.held_in_newest =
        sequence.ends_unseen() && sequence.stays_in_newest() && !sequence.destroyed && !sequence.continued &&
        std::ranges::none_of(sequences_of(sequence.member), [&](uint32_t other) {
          return sequences_[other].tid == sequence.tid && sequences_[other].last_arrival_ns > sequence.last_arrival_ns;
        });
    if (sequence.ends_unseen() || sequence.ends_unobserved()) {
      unseen.insert(sequence.member);
    } else if (!sequence.calls.empty() && sequence.calls.back().completion == Completion::kUnobserved &&
               !sequence.destroyed &&
               std::min(sequence.observed_to_ns(), span_.to_ns) - sequence.last_arrival_ns >= kHangNs) {
      left_unobserved.insert(sequence.member);
    }
  }
  if (!unseen.empty()) {
    notes_.push_back(
        fmt::format("of {} no end of a collective was ever seen on some communicator: whether those hang or are "
                    "slow cannot be judged",
                    count_of(static_cast<int64_t>(unseen.size()), "rank")));
  }
  if (!left_unobserved.empty()) {
    notes_.push_back(
        fmt::format("the last call of {} on some communicator is one whose end is not reported: whether it hangs "
                    "cannot be judged",
                    count_of(static_cast<int64_t>(left_unobserved.size()), "rank")));
  }
}

}  // namespace stalltrace::analysis
