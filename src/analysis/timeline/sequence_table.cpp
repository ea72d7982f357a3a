// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/sequence_table.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/hash.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kMaxGap = 1 << 16;  // after a larger jump of sequence numbers a new sequence begins
constexpr int64_t kMaxBack =
    1024;  // rows of several threads are at most this far out of order; only at a sequence's start
constexpr int64_t kFreePadding = 1 << 20;  // calls held for lost rows, in addition to one per row
constexpr size_t kMaxPieces = 64;          // per rank and communicator

/// The number of empty calls that `seq` would need in the sequence; none if it does not belong there.
std::optional<int64_t> padding_for(const CallSequence& sequence, int64_t seq) {
  const auto size = static_cast<int64_t>(sequence.calls.size());
  const int64_t position = seq - sequence.first_seq;
  if (position < 0) {
    return position >= -kMaxBack && size <= kMaxBack ? std::optional(-position - 1) : std::nullopt;
  }
  return position <= size + kMaxGap ? std::optional(std::max<int64_t>(0, position - size)) : std::nullopt;
}

}  // namespace

size_t SequenceTable::recent_slot(const SequenceKey& key) {
  return ((static_cast<uint64_t>(key.pid) + key.comm_ptr) * kSplitmixSeed) >> (64 - kRecentBits);
}

size_t SequenceTable::KeyHash::operator()(const SequenceKey& key) const {
  uint64_t hash =
      splitmix64_fold(kSplitmixSeed, (static_cast<uint64_t>(key.node) << 32) | static_cast<uint32_t>(key.pid));
  hash = splitmix64_fold(hash, key.comm_ptr ^ (key.hash * 31));
  return splitmix64_fold(hash,
                         (static_cast<uint64_t>(static_cast<uint32_t>(key.peer)) << 1) | (key.receives ? 1U : 0U));
}

CallSequence* SequenceTable::find(const Collective& row, int64_t rows) {
  CallSequence* sequence = first_piece(row);
  return sequence == nullptr || !row.seq ? sequence : piece_for(*sequence, row, rows);
}

CallSequence* SequenceTable::first_piece(const Collective& row) {
  const bool pair = is_point_to_point(row.op);
  const SequenceKey key{row.node_id,
                        row.pid,
                        row.comm_ptr,
                        row.comm_id_hash,
                        pair ? row.peer.value_or(kNoPeer) : kNoPeer,
                        pair && row.op == Operation::kRecv};
  uint32_t& recent = recent_[recent_slot(key)];
  if (recent < sequences_.size() && keys_[recent] == key) {
    return &sequences_[recent];
  }
  const auto [found, fresh] = index_.try_emplace(key, static_cast<uint32_t>(sequences_.size()));
  if (!fresh) {
    recent = found->second;
    return &sequences_[recent];
  }
  CallSequence sequence{.hash = row.comm_id_hash,
                        .comm_ptr = row.comm_ptr,
                        .comm_rank = row.rank,
                        .nranks = row.nranks,
                        .library = row.library};
  sequence.member = cluster_.join(row.node_id, row.pid);
  sequence.point_to_point = pair;
  sequence.receives = key.receives;
  sequence.shift_ns = cluster_.clock().shift_ns(row.node_id);
  sequence.first_seq = row.seq.value_or(0);
  sequence.destroyed = cluster_.destroyed(row.node_id, row.pid, row.comm_ptr, row.comm_id_hash);
  if (const Communicator* known = cluster_.communicator(row.node_id, row.pid, row.comm_ptr, row.comm_id_hash)) {
    sequence.nccl_hash = known->nccl_comm_hash;
    sequence.comm_rank = known->rank ? known->rank : sequence.comm_rank;
    sequence.nranks = known->nranks ? known->nranks : sequence.nranks;
  }
  if (sequence.member == kNoMember) {
    index_.erase(found);
    return nullptr;
  }
  recent = found->second;
  sequences_.push_back(std::move(sequence));
  keys_.push_back(key);
  begun_ns_.push_back(row.timestamp_ns);
  return &sequences_.back();
}

void SequenceTable::order_by_time() {
  if (std::ranges::is_sorted(begun_ns_)) {
    return;
  }
  std::vector<uint32_t> order(sequences_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [this](uint32_t sequence) { return begun_ns_[sequence]; });
  std::vector<uint32_t> numbers(order.size());
  std::vector<CallSequence> sequences;
  std::vector<SequenceKey> keys;
  sequences.reserve(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    numbers[order[i]] = i;
    sequences.push_back(std::move(sequences_[order[i]]));
    keys.push_back(keys_[order[i]]);
  }
  sequences_ = std::move(sequences);
  keys_ = std::move(keys);
  std::ranges::sort(begun_ns_);
  for (auto& [key, sequence] : index_) {
    sequence = numbers[sequence];
  }
  std::unordered_map<uint32_t, std::vector<uint32_t>> pieces;
  for (auto& [first, more] : pieces_) {
    std::vector<uint32_t>& renumbered = pieces[numbers[first]];
    std::ranges::transform(more, std::back_inserter(renumbered), [&](uint32_t piece) { return numbers[piece]; });
  }
  pieces_ = std::move(pieces);
}

/// The sequence of the same rank and communicator that `seq` continues: the newest one that it fits, or a new one.
CallSequence* SequenceTable::piece_for(CallSequence& first, const Collective& row, int64_t rows) {
  const int64_t seq = *row.seq;
  const auto first_index = static_cast<uint32_t>(&first - sequences_.data());
  const auto known = pieces_.empty() ? pieces_.end() : pieces_.find(first_index);
  const size_t count = known == pieces_.end() ? 0 : known->second.size();
  for (size_t i = count + 1; i-- > 0;) {
    CallSequence& sequence = i == 0 ? first : sequences_[known->second[i - 1]];
    const std::optional<int64_t> padding = padding_for(sequence, seq);
    if (padding && padded_ + *padding <= rows + kFreePadding) {
      padded_ += *padding;
      return &sequence;
    }
  }
  if (count + 1 >= kMaxPieces) {
    ++skipped_;
    return nullptr;
  }
  std::vector<Call> calls = std::exchange(first.calls, {});
  std::vector<uint32_t> queued_us = std::exchange(first.queued_us, {});
  CallSequence piece = first;
  first.calls = std::move(calls);
  first.queued_us = std::move(queued_us);
  piece.first_seq = seq;
  piece.first_arrival_ns = kForever;
  piece.last_arrival_ns = std::numeric_limits<int64_t>::min();
  piece.first_open_ns = kForever;
  piece.last_ended_seq = -1;
  const SequenceKey key = keys_[first_index];
  pieces_[first_index].push_back(static_cast<uint32_t>(sequences_.size()));
  sequences_.push_back(std::move(piece));
  keys_.push_back(key);
  begun_ns_.push_back(row.timestamp_ns);
  return &sequences_.back();
}

void SequenceTable::insert(CallSequence& sequence, const Call& call, std::optional<int64_t> seq, uint32_t queued_us) {
  const int64_t position = seq ? *seq - sequence.first_seq : static_cast<int64_t>(sequence.calls.size());
  const auto size = static_cast<int64_t>(sequence.calls.size());
  if (position < 0) {  // rows out of order: an earlier one arrived late
    sequence.calls.insert(sequence.calls.begin(), static_cast<size_t>(-position), Call{});
    sequence.first_seq += position;
    sequence.calls.front() = call;
    if (!sequence.queued_us.empty()) {
      sequence.queued_us.insert(sequence.queued_us.begin(), static_cast<size_t>(-position), kOpenDuration);
    }
  } else if (position < size) {
    sequence.calls[static_cast<size_t>(position)] = call;
  } else {
    sequence.calls.resize(static_cast<size_t>(position));
    sequence.calls.push_back(call);
  }
  if (queued_us != kOpenDuration || !sequence.queued_us.empty()) {
    sequence.queued_us.resize(sequence.calls.size(), kOpenDuration);
    sequence.queued_us[static_cast<size_t>(std::max<int64_t>(position, 0))] = queued_us;
  }
  sequence.first_arrival_ns = std::min(sequence.first_arrival_ns, call.arrival_ns);
  sequence.last_arrival_ns = std::max(sequence.last_arrival_ns, call.arrival_ns);
  if (call.is_open()) {
    sequence.first_open_ns = std::min(sequence.first_open_ns, call.arrival_ns);
  }
  if (call.duration_us != kOpenDuration) {
    sequence.last_ended_seq = std::max(sequence.last_ended_seq, sequence.first_seq + std::max<int64_t>(position, 0));
  }
}

void SequenceTable::add_silent(const Communicator& row, MemberIndex member, const SequenceKey& key) {
  CallSequence sequence{.member = member, .hash = row.comm_id_hash, .comm_ptr = row.comm_ptr, .comm_rank = row.rank};
  sequence.nranks = row.nranks;
  sequence.point_to_point = key.peer != kNoPeer;
  sequence.receives = key.receives;
  sequence.shift_ns = cluster_.clock().shift_ns(row.node_id);
  sequence.destroyed = row.destroyed_ns.has_value();
  sequences_.push_back(std::move(sequence));
  keys_.push_back(key);
}

void SequenceTable::mark_continued() {
  for (const auto& [first, more] : pieces_) {
    uint32_t last = first;
    for (const uint32_t piece : more) {
      last = sequences_[piece].last_arrival_ns > sequences_[last].last_arrival_ns ? piece : last;
    }
    sequences_[first].continued = first != last;
    for (const uint32_t piece : more) {
      sequences_[piece].continued = piece != last;
    }
  }
}

uint64_t SequenceTable::group_key(uint32_t sequence_index) const {
  const CallSequence& sequence = sequences_[sequence_index];
  const SequenceKey& key = keys_[sequence_index];
  const AttemptIndex attempt = cluster_.attempt_of(sequence.member);
  const uint64_t communicator = attempt == 0 ? sequence.hash : splitmix64_fold(sequence.hash, attempt);
  if (!sequence.point_to_point) {
    return communicator;
  }
  const auto self = static_cast<uint64_t>(static_cast<uint32_t>(sequence.comm_rank.value_or(kNoPeer)));
  const auto peer = static_cast<uint64_t>(static_cast<uint32_t>(key.peer));
  return splitmix64_fold(communicator, key.receives ? (peer << 32) | self : (self << 32) | peer);
}

}  // namespace stalltrace::analysis
