// SPDX-License-Identifier: Apache-2.0
#include "analysis/lane_table.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kMaxGap = 1 << 16;       // behind a larger jump of sequence numbers a new lane begins
constexpr int64_t kMaxBack = 1024;         // rows of several threads are so much out of order; only at a lane's start
constexpr int64_t kFreePadding = 1 << 20;  // calls held for lost rows, beside one per row
constexpr size_t kMaxPieces = 64;          // lanes of one rank on one communicator

/// How many empty calls `seq` would need in the lane; none when it does not belong there.
std::optional<int64_t> padding_for(const Lane& lane, int64_t seq) {
  const auto size = static_cast<int64_t>(lane.calls.size());
  const int64_t position = seq - lane.first_seq;
  if (position < 0) {
    return position >= -kMaxBack && size <= kMaxBack ? std::optional(-position - 1) : std::nullopt;
  }
  return position <= size + kMaxGap ? std::optional(std::max<int64_t>(0, position - size)) : std::nullopt;
}

}  // namespace

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
  first_open_ns += first_open_ns == kOpenEnd ? 0 : by_ns;
  abort_ns += abort_ns == kOpenEnd ? 0 : by_ns;
}

size_t LaneTable::KeyHash::operator()(const LaneKey& key) const {
  uint64_t hash =
      splitmix64_fold(kSplitmixSeed, (static_cast<uint64_t>(key.node) << 32) | static_cast<uint32_t>(key.pid));
  hash = splitmix64_fold(hash, key.comm_ptr ^ (key.hash * 31));
  return splitmix64_fold(hash,
                         (static_cast<uint64_t>(static_cast<uint32_t>(key.peer)) << 1) | (key.receives ? 1U : 0U));
}

Lane* LaneTable::find(const Collective& row, int64_t rows) {
  Lane* lane = first_piece(row);
  return lane == nullptr || !row.seq ? lane : piece_for(*lane, *row.seq, rows);
}

Lane* LaneTable::first_piece(const Collective& row) {
  const bool pair = is_point_to_point(row.op);
  const LaneKey key{row.node_id,
                    row.pid,
                    row.comm_ptr,
                    row.comm_id_hash,
                    pair ? row.peer.value_or(kNoPeer) : kNoPeer,
                    pair && row.op == Operation::kRecv};
  // Rows of a few ranks take turns: a small cache before the table saves most of the look-ups.
  Recent& recent = recent_[(static_cast<uint32_t>(row.pid) ^ static_cast<uint32_t>(row.comm_ptr >> 6)) % kRecentLanes];
  if (recent.lane < lanes_.size() && recent.key == key) {
    return &lanes_[recent.lane];
  }
  const auto [found, fresh] = index_.try_emplace(key, static_cast<uint32_t>(lanes_.size()));
  recent = {key, found->second};
  if (!fresh) {
    return &lanes_[found->second];
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
  lanes_.push_back(std::move(lane));
  keys_.push_back(key);
  return &lanes_.back();
}

/// The lane of the same rank and communicator that `seq` continues: the newest that it fits, or a new one.
Lane* LaneTable::piece_for(Lane& newest, int64_t seq, int64_t rows) {
  const auto first = static_cast<uint32_t>(&newest - lanes_.data());
  const auto known = pieces_.find(first);
  const size_t count = known == pieces_.end() ? 0 : known->second.size();
  for (size_t i = count + 1; i-- > 0;) {
    Lane& lane = i == 0 ? newest : lanes_[known->second[i - 1]];
    const std::optional<int64_t> padding = padding_for(lane, seq);
    if (padding && padded_ + *padding <= rows + kFreePadding) {
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
  piece.first_seq = seq;
  piece.first_arrival_ns = std::numeric_limits<int64_t>::max();
  piece.last_arrival_ns = std::numeric_limits<int64_t>::min();
  piece.first_open_ns = kOpenEnd;
  piece.last_ended_seq = -1;
  const LaneKey key = keys_[first];
  pieces_[first].push_back(static_cast<uint32_t>(lanes_.size()));
  lanes_.push_back(std::move(piece));
  keys_.push_back(key);
  return &lanes_.back();
}

void LaneTable::place(Lane& lane, const Call& call, std::optional<int64_t> seq) {
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
  if (call.is_open()) {
    lane.first_open_ns = std::min(lane.first_open_ns, call.arrival_ns);
  }
  if (call.duration_us != kOpenDuration) {
    lane.last_ended_seq = std::max(lane.last_ended_seq, lane.first_seq + std::max<int64_t>(position, 0));
  }
}

void LaneTable::add_silent(const Communicator& row, MemberIndex member, const LaneKey& key) {
  Lane lane{.member = member, .hash = row.comm_id_hash, .comm_ptr = row.comm_ptr, .comm_rank = row.rank};
  lane.nranks = row.nranks;
  lane.point_to_point = key.peer != kNoPeer;
  lane.receives = key.receives;
  lane.shift_ns = cluster_.clock().shift_ns(row.node_id);
  lane.destroyed = row.destroyed_ns.has_value();
  lanes_.push_back(std::move(lane));
  keys_.push_back(key);
}

void LaneTable::mark_continued() {
  for (const auto& [first, more] : pieces_) {
    uint32_t last = first;
    for (const uint32_t piece : more) {
      last = lanes_[piece].last_arrival_ns > lanes_[last].last_arrival_ns ? piece : last;
    }
    lanes_[first].continued = first != last;
    for (const uint32_t piece : more) {
      lanes_[piece].continued = piece != last;
    }
  }
}

uint64_t LaneTable::group_key(uint32_t lane_index) const {
  const Lane& lane = lanes_[lane_index];
  const LaneKey& key = keys_[lane_index];
  if (!lane.point_to_point) {
    return lane.hash;
  }
  const auto self = static_cast<uint64_t>(static_cast<uint32_t>(lane.comm_rank.value_or(kNoPeer)));
  const auto peer = static_cast<uint64_t>(static_cast<uint32_t>(key.peer));
  return splitmix64_fold(lane.hash, key.receives ? (peer << 32) | self : (self << 32) | peer);
}

}  // namespace stalltrace::analysis
