// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analysis/offsets.h"
#include "base/hash.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kMaxSeq = 1LL << 40;     // more is a corrupt row
constexpr int64_t kMaxGap = 1 << 16;       // behind a larger jump of sequence numbers a new lane begins
constexpr int64_t kMaxBack = 1024;         // rows of several threads are so much out of order; only at a lane's start
constexpr int64_t kFreePadding = 1 << 20;  // calls held for lost rows, beside one per row
constexpr size_t kMaxPieces = 64;          // lanes of one rank on one communicator
constexpr uint16_t kOtherShape = 0xffff;   // shapes beyond the index space share the last one
constexpr int32_t kNoPeer = -1;
constexpr size_t kRecentLanes = 256;

struct LaneKey {
  NodeId node = 0;
  int32_t pid = 0;
  uint64_t comm_ptr = 0;
  CommHash hash = 0;
  int32_t peer = kNoPeer;
  bool receives = false;
  bool operator==(const LaneKey&) const = default;
};

struct LaneKeyHash {
  size_t operator()(const LaneKey& key) const {
    uint64_t hash =
        splitmix64_fold(kSplitmixSeed, (static_cast<uint64_t>(key.node) << 32) | static_cast<uint32_t>(key.pid));
    hash = splitmix64_fold(hash, key.comm_ptr ^ (key.hash * 31));
    return splitmix64_fold(hash,
                           (static_cast<uint64_t>(static_cast<uint32_t>(key.peer)) << 1) | (key.receives ? 1U : 0U));
  }
};

/// Sums over processes whose counts may differ by rank, as MPI's "v" variants do.
bool sized_alike(Operation op) {
  return op == Operation::kAllReduce || op == Operation::kBroadcast || op == Operation::kReduce;
}

/// Datatypes and reduce-ops of NCCL are numbers; those of others may be addresses.
Shape shape_from(const Collective& row) {
  const bool numbers = row.library == Library::kNccl || row.library == Library::kRccl;
  Shape shape{.op = row.op == Operation::kRecv ? Operation::kSend : row.op, .bytes = row.bytes};
  shape.root = row.root.value_or(Shape::kNoArgument);
  shape.exact = numbers;
  if (numbers && !is_point_to_point(row.op)) {
    shape.datatype = row.datatype.value_or(Shape::kNoArgument);
    shape.reduce_op = row.reduce_op.value_or(Shape::kNoArgument);
  }
  return shape;
}

uint64_t hash_of(const Shape& shape) {
  const auto pair = [](int32_t a, int32_t b) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32) | static_cast<uint32_t>(b);
  };
  const uint64_t hash =
      splitmix64_fold(kSplitmixSeed, (static_cast<uint64_t>(shape.op) << 1) | (shape.exact ? 1U : 0U));
  return splitmix64_fold(
      splitmix64_fold(splitmix64_fold(hash, static_cast<uint64_t>(shape.bytes)), pair(shape.datatype, shape.reduce_op)),
      static_cast<uint32_t>(shape.root));
}

constexpr int32_t kInProgress = 7;  // ncclInProgress

bool failed(const Collective& row) {
  return row.return_code.value_or(0) != 0 && (row.library == Library::kMpi || *row.return_code != kInProgress);
}

uint32_t pack_duration(std::optional<int64_t> duration_ns) {
  if (!duration_ns) {
    return kOpenDuration;
  }
  return static_cast<uint32_t>(std::clamp<int64_t>(*duration_ns / kNsPerUs, 0, kOpenDuration - 1));
}

}  // namespace

bool agree(const Shape& a, const Shape& b) {
  if (a.op != b.op || a.root != b.root) {
    return false;
  }
  if (a.exact && b.exact) {
    return a.bytes == b.bytes && a.datatype == b.datatype && a.reduce_op == b.reduce_op;
  }
  return !sized_alike(a.op) || a.bytes == b.bytes;
}

void Lane::move(int64_t by_ns) {
  shift_ns += by_ns;
  if (by_ns == 0 || calls.empty()) {
    return;
  }
  for (Call& call : calls) {
    call.arrival_ns += call.present ? by_ns : 0;
  }
  first_arrival_ns += by_ns;
  last_arrival_ns += by_ns;
  abort_ns += abort_ns == kOpenEnd ? 0 : by_ns;
}

class TimelineBuilder {
 public:
  TimelineBuilder(Timeline& timeline, Cluster& cluster) : timeline_(timeline), cluster_(cluster) {}

  void add(const Collective& row) {
    if (!moves_data(row.op)) {
      note_communicator_call(row);
      return;
    }
    ++timeline_.rows_;
    if (row.seq && (*row.seq < 0 || *row.seq > kMaxSeq)) {
      ++skipped_;
      return;
    }
    Lane* lane = lane_of(row);
    lane = lane == nullptr ? nullptr : piece_for(*lane, row.seq);
    if (lane == nullptr) {
      return;
    }
    const int64_t arrival_ns = row.timestamp_ns + lane->shift_ns;
    Call call{arrival_ns, pack_duration(row.duration_ns), shape_of(row), row.completion, true};
    if (failed(row)) {  // it never ended: the rank left it with an error
      lane->abort_ns = row.duration_ns ? call.end_ns() : arrival_ns;
      call.duration_us = kOpenDuration;
    }
    timeline_.span_.from_ns = std::min(timeline_.span_.from_ns, arrival_ns);
    timeline_.span_.to_ns = std::max(timeline_.span_.to_ns, call.end_ns() != kOpenEnd ? call.end_ns() : arrival_ns);
    lane->tid = row.tid;
    place(*lane, call, row.seq);
  }

  void finish() {
    align_hosts();
    add_silent_members();
    mark_continued();
    std::unordered_map<uint64_t, uint32_t> known;
    std::vector<uint32_t> unknown;
    for (uint32_t i = 0; i < timeline_.lanes_.size(); ++i) {
      Lane& lane = timeline_.lanes_[i];
      if (lane.hash == 0) {
        unknown.push_back(i);
        timeline_.unknown_rows_ += static_cast<int64_t>(lane.calls.size());
        continue;
      }
      const auto [found, fresh] = known.try_emplace(group_key(i), static_cast<uint32_t>(timeline_.groups_.size()));
      if (fresh) {
        timeline_.groups_.push_back({.hash = lane.hash, .point_to_point = lane.point_to_point});
      }
      put(found->second, i);
    }
    for (const std::vector<uint32_t>& lanes : match_unknown_lanes(timeline_.lanes_, unknown, cluster_)) {
      timeline_.groups_.push_back({.point_to_point = timeline_.lanes_[lanes[0]].point_to_point});
      for (const uint32_t lane : lanes) {
        put(static_cast<uint32_t>(timeline_.groups_.size() - 1), lane);
      }
    }
    if (skipped_ > 0) {
      timeline_.notes_.push_back(
          fmt::format("{} collectives carry an impossible sequence number and were left out", skipped_));
    }
  }

 private:
  /// Until here each host's times are its own.
  void align_hosts() {
    if (cluster_.clock().hosts() < 2) {
      return;
    }
    std::unordered_map<NodeId, int64_t> before;
    for (const Node& node : cluster_.nodes()) {
      before[node.node_id] = cluster_.clock().shift_ns(node.node_id);
    }
    cluster_.align(bound_offsets(timeline_.lanes_, timeline_.shapes_, cluster_));
    const auto moved_ns = [&](NodeId node) { return cluster_.clock().shift_ns(node) - before[node]; };
    Interval span{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    for (Lane& lane : timeline_.lanes_) {
      lane.move(moved_ns(cluster_.member(lane.member).node_id));
      for (const Call& call : lane.calls) {
        if (call.present) {
          span.from_ns = std::min(span.from_ns, call.arrival_ns);
          span.to_ns = std::max(span.to_ns, call.end_ns() != kOpenEnd ? call.end_ns() : call.arrival_ns);
        }
      }
    }
    timeline_.span_ = span;
    for (CommunicatorCall& call : timeline_.communicator_calls_) {
      const int64_t shift_ns = moved_ns(cluster_.member(call.member).node_id);
      call.arrival_ns += shift_ns;
      call.end_ns += call.end_ns == kOpenEnd ? 0 : shift_ns;
    }
    for (auto& [call, time_ns] : aborts_) {
      time_ns += moved_ns(std::get<NodeId>(call));
    }
  }

  Lane* lane_of(const Collective& row) {
    const bool pair = is_point_to_point(row.op);
    const LaneKey key{row.node_id,
                      row.pid,
                      row.comm_ptr,
                      row.comm_id_hash,
                      pair ? row.peer.value_or(kNoPeer) : kNoPeer,
                      pair && row.op == Operation::kRecv};
    // Rows of a few ranks take turns: a small cache before the table saves most of the look-ups.
    Recent& recent =
        recent_[(static_cast<uint32_t>(row.pid) ^ static_cast<uint32_t>(row.comm_ptr >> 6)) % kRecentLanes];
    if (recent.lane < timeline_.lanes_.size() && recent.key == key) {
      return &timeline_.lanes_[recent.lane];
    }
    const auto [found, fresh] = index_.try_emplace(key, static_cast<uint32_t>(timeline_.lanes_.size()));
    recent = {key, found->second};
    if (!fresh) {
      return &timeline_.lanes_[found->second];
    }
    Lane lane{.hash = row.comm_id_hash, .comm_ptr = row.comm_ptr, .comm_rank = row.rank, .nranks = row.nranks};
    lane.member = cluster_.join(row.node_id, row.pid);
    lane.point_to_point = pair;
    lane.receives = key.receives;
    lane.shift_ns = cluster_.clock().shift_ns(row.node_id);
    lane.first_seq = row.seq.value_or(0);
    lane.destroyed = cluster_.destroyed(row.node_id, row.pid, row.comm_ptr, row.comm_id_hash);
    if (const Communicator* known = cluster_.communicator(row.node_id, row.pid, row.comm_ptr, row.comm_id_hash)) {
      lane.comm_rank = known->rank ? known->rank : lane.comm_rank;
      lane.nranks = known->nranks ? known->nranks : lane.nranks;
    }
    if (lane.member == kNoMember) {
      index_.erase(found);
      recent = {};
      return nullptr;
    }
    timeline_.lanes_.push_back(std::move(lane));
    keys_.push_back(key);
    return &timeline_.lanes_.back();
  }

  uint16_t shape_of(const Collective& row) {
    Shape shape = shape_from(row);
    if (shape == last_shape_) {
      return last_shape_index_;
    }
    last_shape_ = shape;
    const auto next = static_cast<uint16_t>(std::min<size_t>(timeline_.shapes_.size(), kOtherShape));
    const auto [found, fresh] = shape_index_.try_emplace(hash_of(shape), next);
    if (fresh && timeline_.shapes_.size() <= kOtherShape) {
      const uint64_t kind = splitmix64_fold(splitmix64_fold(kSplitmixSeed, static_cast<uint64_t>(shape.op)),
                                            static_cast<uint64_t>(shape.bytes));
      shape.like = like_index_.try_emplace(kind, next).first->second;
      timeline_.shapes_.push_back(shape);
    }
    return last_shape_index_ = found->second;
  }

  void note_communicator_call(const Collective& row) {
    if (!is_communicator_call(row.op)) {
      return;
    }
    CommunicatorCall call{.member = cluster_.join(row.node_id, row.pid), .op = row.op, .hash = row.comm_id_hash};
    if (call.member == kNoMember) {
      return;
    }
    const int64_t shift_ns = cluster_.clock().shift_ns(row.node_id);
    call.arrival_ns = row.timestamp_ns + shift_ns;
    call.end_ns = row.duration_ns ? call.arrival_ns + *row.duration_ns : kOpenEnd;
    call.rank = row.rank;
    call.nranks = row.nranks;
    call.return_code = row.return_code;
    if (row.op == Operation::kCommAbort) {
      aborts_[{row.node_id, row.pid, row.comm_ptr, row.comm_id_hash}] = call.arrival_ns;
    }
    timeline_.communicator_calls_.push_back(call);
  }

  /// A rank that made a communicator but never called anything on it gets a lane, too: its absence can be told.
  void add_silent_members() {
    std::map<std::pair<CommHash, int32_t>, MemberIndex> members;
    std::set<std::tuple<MemberIndex, CommHash, uint64_t>> heard;
    const size_t lanes = timeline_.lanes_.size();
    for (size_t i = 0; i < lanes; ++i) {
      const Lane& lane = timeline_.lanes_[i];
      if (!lane.point_to_point) {
        heard.insert({lane.member, lane.hash, lane.comm_ptr});
      }
    }
    for (const Communicator& row : cluster_.communicators()) {
      const MemberIndex member = cluster_.find(row.node_id, row.pid);
      if (row.comm_id_hash == 0 || !row.rank || member == kNoMember) {
        continue;
      }
      members[{row.comm_id_hash, *row.rank}] = member;
      if (!heard.contains({member, row.comm_id_hash, row.comm_ptr})) {
        add_silent(row, member, {row.node_id, row.pid, row.comm_ptr, row.comm_id_hash});
      }
    }
    std::set<uint64_t> pairs[2];  // by whether the receiver has a lane
    for (uint32_t i = 0; i < lanes; ++i) {
      if (timeline_.lanes_[i].point_to_point) {
        pairs[keys_[i].receives ? 1 : 0].insert(group_key(i));
      }
    }
    for (uint32_t i = 0; i < lanes; ++i) {
      const LaneKey key = keys_[i];
      if (!timeline_.lanes_[i].point_to_point || key.hash == 0 || pairs[key.receives ? 0 : 1].contains(group_key(i))) {
        continue;
      }
      const auto peer = members.find({key.hash, key.peer});
      if (peer != members.end() && timeline_.lanes_[i].comm_rank) {
        const Member& process = cluster_.member(peer->second);
        add_silent({.node_id = process.node_id, .pid = process.pid, .comm_id_hash = key.hash, .rank = key.peer},
                   peer->second,
                   {process.node_id, process.pid, 0, key.hash, *timeline_.lanes_[i].comm_rank, !key.receives});
      }
    }
  }

  void add_silent(const Communicator& row, MemberIndex member, const LaneKey& key) {
    Lane lane{.member = member, .hash = row.comm_id_hash, .comm_ptr = row.comm_ptr, .comm_rank = row.rank};
    lane.nranks = row.nranks;
    lane.point_to_point = key.peer != kNoPeer;
    lane.receives = key.receives;
    lane.shift_ns = cluster_.clock().shift_ns(row.node_id);
    lane.destroyed = row.destroyed_ns.has_value();
    timeline_.lanes_.push_back(std::move(lane));
    keys_.push_back(key);
  }

  /// How many empty calls `seq` would need in the lane; none when it does not belong there.
  static std::optional<int64_t> padding_for(const Lane& lane, int64_t seq) {
    const auto size = static_cast<int64_t>(lane.calls.size());
    const int64_t position = seq - lane.first_seq;
    if (position < 0) {
      return position >= -kMaxBack && size <= kMaxBack ? std::optional(-position - 1) : std::nullopt;
    }
    return position <= size + kMaxGap ? std::optional(std::max<int64_t>(0, position - size)) : std::nullopt;
  }

  /// The lane of the same rank and communicator that `seq` continues: the newest that it fits, or a new one.
  Lane* piece_for(Lane& newest, std::optional<int64_t> seq) {
    if (!seq) {
      return &newest;
    }
    const auto first = static_cast<uint32_t>(&newest - timeline_.lanes_.data());
    const auto known = pieces_.find(first);
    const size_t count = known == pieces_.end() ? 0 : known->second.size();
    for (size_t i = count + 1; i-- > 0;) {
      Lane& lane = i == 0 ? newest : timeline_.lanes_[known->second[i - 1]];
      const std::optional<int64_t> padding = padding_for(lane, *seq);
      if (padding && padded_ + *padding <= timeline_.rows_ + kFreePadding) {
        padded_ += *padding;
        return &lane;
      }
    }
    if (count + 1 >= kMaxPieces) {
      ++skipped_;
      return nullptr;
    }
    std::vector<Call> calls = std::exchange(newest.calls, {});
    Lane piece = newest;
    newest.calls = std::move(calls);
    piece.first_seq = *seq;
    piece.first_arrival_ns = std::numeric_limits<int64_t>::max();
    piece.last_arrival_ns = std::numeric_limits<int64_t>::min();
    piece.last_ended_seq = -1;
    const LaneKey key = keys_[first];
    pieces_[first].push_back(static_cast<uint32_t>(timeline_.lanes_.size()));
    timeline_.lanes_.push_back(std::move(piece));
    keys_.push_back(key);
    return &timeline_.lanes_.back();
  }

  /// Only the lane with a rank's newest calls can tell that the rank is absent, or that it went on.
  void mark_continued() {
    for (const auto& [first, more] : pieces_) {
      uint32_t last = first;
      for (const uint32_t piece : more) {
        last = timeline_.lanes_[piece].last_arrival_ns > timeline_.lanes_[last].last_arrival_ns ? piece : last;
      }
      timeline_.lanes_[first].continued = first != last;
      for (const uint32_t piece : more) {
        timeline_.lanes_[piece].continued = piece != last;
      }
    }
  }

  void place(Lane& lane, const Call& call, std::optional<int64_t> seq) {
    const int64_t position = seq ? *seq - lane.first_seq : static_cast<int64_t>(lane.calls.size());
    const auto size = static_cast<int64_t>(lane.calls.size());
    if (position < 0) {  // rows out of order: an earlier one turns up
      lane.calls.insert(lane.calls.begin(), static_cast<size_t>(-position), Call{});
      lane.first_seq += position;
      lane.calls.front() = call;
    } else if (position < size) {
      lane.calls[static_cast<size_t>(position)] = call;
    } else {
      lane.calls.resize(static_cast<size_t>(position));
      lane.calls.push_back(call);
    }
    lane.first_arrival_ns = std::min(lane.first_arrival_ns, call.arrival_ns);
    lane.last_arrival_ns = std::max(lane.last_arrival_ns, call.arrival_ns);
    if (call.duration_us != kOpenDuration) {
      lane.last_ended_seq = std::max(lane.last_ended_seq, lane.first_seq + std::max<int64_t>(position, 0));
    }
  }

  /// Send/Recv pair up by communicator, sender and receiver; all other calls by communicator.
  uint64_t group_key(uint32_t lane_index) const {
    const Lane& lane = timeline_.lanes_[lane_index];
    const LaneKey& key = keys_[lane_index];
    if (!lane.point_to_point) {
      return lane.hash;
    }
    const auto self = static_cast<uint64_t>(static_cast<uint32_t>(lane.comm_rank.value_or(kNoPeer)));
    const auto peer = static_cast<uint64_t>(static_cast<uint32_t>(key.peer));
    return splitmix64_fold(lane.hash, key.receives ? (peer << 32) | self : (self << 32) | peer);
  }

  /// Only a failure or abort that the rank made no more calls after is one. What seems to end behind it did not.
  void note_abort(Lane& lane, const LaneKey& key) const {
    const auto abort = aborts_.find({key.node, key.pid, key.comm_ptr, key.hash});
    if (abort != aborts_.end()) {
      lane.abort_ns = std::min(lane.abort_ns, abort->second);
    }
    lane.aborted = lane.abort_ns != kOpenEnd && lane.abort_ns >= lane.last_arrival_ns;
    if (!lane.aborted) {
      lane.abort_ns = kOpenEnd;
      return;
    }
    lane.destroyed = false;
    for (size_t i = lane.calls.size(); i-- > 0 && lane.calls[i].end_ns() >= lane.abort_ns;) {
      lane.calls[i].duration_us = kOpenDuration;
      lane.last_ended_seq = std::min(lane.last_ended_seq, lane.first_seq + static_cast<int64_t>(i) - 1);
    }
  }

  void put(uint32_t group_index, uint32_t lane_index) {
    Group& group = timeline_.groups_[group_index];
    Lane& lane = timeline_.lanes_[lane_index];
    note_abort(lane, keys_[lane_index]);
    lane.group = group_index;
    group.lanes.push_back(lane_index);
    if (group.point_to_point) {
      group.nranks = 2;
    } else if (lane.nranks) {
      group.nranks = std::max(group.nranks.value_or(0), *lane.nranks);
    }
  }

  Timeline& timeline_;
  Cluster& cluster_;
  std::unordered_map<LaneKey, uint32_t, LaneKeyHash> index_;
  std::vector<LaneKey> keys_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> pieces_;  // of a rank's first lane: those behind gaps
  int64_t padded_ = 0;
  struct Recent {
    LaneKey key;
    uint32_t lane = 0xffff'ffff;
  };
  std::array<Recent, kRecentLanes> recent_;
  std::unordered_map<uint64_t, uint16_t> shape_index_;
  std::unordered_map<uint64_t, uint16_t> like_index_;  // by operation and size alone
  Shape last_shape_{.bytes = -1};
  uint16_t last_shape_index_ = 0;
  std::map<std::tuple<NodeId, int32_t, uint64_t, CommHash>, int64_t> aborts_;
  int64_t skipped_ = 0;
};

Result<Timeline> Timeline::load(EventSource& source, Cluster& cluster) {
  Timeline timeline;
  TimelineBuilder builder(timeline, cluster);
  ST_TRY(source.collectives({}, [&](const Collective& row) { builder.add(row); }));
  builder.finish();
  if (timeline.rows_ == 0) {
    timeline.span_ = {};
    for (const CommunicatorCall& call : timeline.communicator_calls_) {
      timeline.span_.from_ns =
          timeline.span_.from_ns == 0 ? call.arrival_ns : std::min(timeline.span_.from_ns, call.arrival_ns);
      timeline.extend(call.end_ns == kOpenEnd ? call.arrival_ns : call.end_ns);
    }
  }
  for (const Node& node : cluster.nodes()) {
    if (node.ended_ns) {
      timeline.extend(cluster.clock().to_common(node.node_id, *node.ended_ns));
    }
  }
  timeline.bound_observation(cluster);
  return timeline;
}

/// Until when each rank was observed, what each group is known to have completed, whose ends are never seen.
void Timeline::bound_observation(const Cluster& cluster) {
  std::unordered_map<NodeId, int64_t> node_ends;
  for (const Node& node : cluster.nodes()) {
    if (node.ended_ns) {
      node_ends[node.node_id] = cluster.clock().to_common(node.node_id, *node.ended_ns);
    }
  }
  std::set<MemberIndex> unseen;
  for (Lane& lane : lanes_) {
    const Member& member = cluster.member(lane.member);
    lane.exit_ns = member.exit_ns.value_or(kOpenEnd);
    if (const auto end = node_ends.find(member.node_id); end != node_ends.end()) {
      lane.node_end_ns = end->second;
    }
    if (lane.last_ended_seq >= 0 && !lane.continued) {
      int64_t& newest = groups_[lane.group].last_ended_column;
      newest = std::max(newest, lane.last_ended_seq + lane.column_offset);
    }
    if (lane.ends_unseen()) {
      unseen.insert(lane.member);
    }
  }
  if (!unseen.empty()) {
    notes_.push_back(
        fmt::format("of {} rank{} no end of a collective was ever seen on some communicator: whether those hang or are "
                    "slow cannot be judged",
                    unseen.size(), unseen.size() == 1 ? "" : "s"));
  }
}

}  // namespace stalltrace::analysis
