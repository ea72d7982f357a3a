// SPDX-License-Identifier: Apache-2.0
// Finds the call sequence of a row and its position there: rows may be out of order or lost, and sequence numbers may
// jump. Internal to the timeline.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analysis/timeline/cluster.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

inline constexpr int32_t kNoPeer = -1;
inline constexpr int64_t kMaxSeq = 1LL << 40;  // a greater number is a corrupt row

struct SequenceKey {
  NodeId node = 0;
  int32_t pid = 0;
  uint64_t comm_ptr = 0;
  CommHash hash = 0;
  int32_t peer = kNoPeer;
  bool receives = false;
  bool operator==(const SequenceKey&) const = default;
};

class SequenceTable {
 public:
  /// Fills `sequences`; both arguments outlive the table.
  SequenceTable(std::vector<CallSequence>& sequences, Cluster& cluster) : sequences_(sequences), cluster_(cluster) {}

  /// The sequence of a row, created if necessary; valid until the next call. Null if the row's process is unknown, or
  /// if its sequence number fits nowhere. `rows`: number of rows so far, which bounds the padding for lost rows.
  CallSequence* find(const Collective& row, int64_t rows);
  /// Puts a call into the sequence that find() returned for its row. `queued_us`: as in CallSequence.
  static void insert(CallSequence& sequence, const Call& call, std::optional<int64_t> seq,
                     uint32_t queued_us = kOpenDuration);
  /// Numbers the sequences by the first rows that came of each, however nodes came after each other. Before
  /// add_silent().
  void order_by_time();
  /// A sequence without calls.
  void add_silent(const Communicator& row, MemberIndex member, const SequenceKey& key);
  /// Marks sequences that later ones continue: only the one with a rank's newest calls shows whether the rank is
  /// absent.
  void mark_continued();

  [[nodiscard]] const SequenceKey& key(uint32_t sequence) const { return keys_[sequence]; }
  /// Sequences with equal keys form a group. Send/Recv are grouped by communicator, sender and receiver; all other
  /// calls by communicator. Communicators with one name in two job attempts have two keys.
  [[nodiscard]] uint64_t group_key(uint32_t sequence) const;
  /// Number of rows whose sequence numbers fit nowhere.
  [[nodiscard]] int64_t skipped() const { return skipped_; }

 private:
  struct KeyHash {
    size_t operator()(const SequenceKey& key) const;
  };

  static constexpr int kRecentBits = 6;
  static size_t recent_slot(const SequenceKey& key);

  CallSequence* first_piece(const Collective& row);
  CallSequence* piece_for(CallSequence& first, const Collective& row, int64_t rows);

  std::vector<CallSequence>& sequences_;
  Cluster& cluster_;
  std::vector<SequenceKey> keys_;  // by sequence
  std::vector<int64_t> begun_ns_;  // by sequence: time of its first row, on the clock of its node
  std::unordered_map<SequenceKey, uint32_t, KeyHash> index_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> pieces_;  // by a rank's first sequence: the sequences after gaps
  /// Sequences found before, which most rows belong to. Finding them takes 2.7 % of the samples of `explain`, without
  /// this 7.7 % (perf, 2026-11-26, 4.5 million calls of 3 hosts, 2 ranks with 2 communicators each).
  std::array<uint32_t, 1 << kRecentBits> recent_{};
  int64_t padded_ = 0;
  int64_t skipped_ = 0;
};

}  // namespace stalltrace::analysis
