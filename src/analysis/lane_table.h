// SPDX-License-Identifier: Apache-2.0
// Which lane a call belongs to, and its place there: rows come out of order, some were lost, and sequence numbers may
// jump. Internal to the timeline.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analysis/cluster.h"
#include "analysis/timeline.h"

namespace stalltrace::analysis {

inline constexpr int32_t kNoPeer = -1;

struct LaneKey {
  NodeId node = 0;
  int32_t pid = 0;
  uint64_t comm_ptr = 0;
  CommHash hash = 0;
  int32_t peer = kNoPeer;
  bool receives = false;
  bool operator==(const LaneKey&) const = default;
};

class LaneTable {
 public:
  /// Fills `lanes`; both outlive the table.
  LaneTable(std::vector<Lane>& lanes, Cluster& cluster) : lanes_(lanes), cluster_(cluster) {}

  /// The lane of a row, new if need be. Null for a row of a process that nothing is known of, and for one whose
  /// sequence number fits nowhere. `rows`: how many there were so far; so much padding for lost rows they are worth.
  Lane* find(const Collective& row, int64_t rows);
  /// Puts a call into the lane that find() gave for its row.
  static void place(Lane& lane, const Call& call, std::optional<int64_t> seq);
  /// A lane without calls.
  void add_silent(const Communicator& row, MemberIndex member, const LaneKey& key);
  /// Only the lane with a rank's newest calls can tell that the rank is absent, or that it went on.
  void mark_continued();

  [[nodiscard]] const LaneKey& key(uint32_t lane) const { return keys_[lane]; }
  /// Lanes with equal ones are a group. Send/Recv pair up by communicator, sender and receiver; all other calls by
  /// communicator.
  [[nodiscard]] uint64_t group_key(uint32_t lane) const;
  /// Rows whose sequence numbers fit nowhere.
  [[nodiscard]] int64_t skipped() const { return skipped_; }

 private:
  struct KeyHash {
    size_t operator()(const LaneKey& key) const;
  };
  struct Recent {
    LaneKey key;
    uint32_t lane = 0xffff'ffff;
  };
  static constexpr size_t kRecentLanes = 256;

  Lane* first_piece(const Collective& row);
  Lane* piece_for(Lane& newest, int64_t seq, int64_t rows);

  std::vector<Lane>& lanes_;
  Cluster& cluster_;
  std::vector<LaneKey> keys_;  // of each lane
  std::unordered_map<LaneKey, uint32_t, KeyHash> index_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> pieces_;  // of a rank's first lane: those behind gaps
  std::array<Recent, kRecentLanes> recent_;
  int64_t padded_ = 0;
  int64_t skipped_ = 0;
};

}  // namespace stalltrace::analysis
