// SPDX-License-Identifier: Apache-2.0
// The distinct signatures of a recording's calls, numbered in order of appearance. Internal to the timeline.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

class SignatureTable {
 public:
  /// Fills `signatures`, which outlives the table.
  explicit SignatureTable(std::vector<CallSignature>& signatures) : signatures_(signatures) {}

  uint16_t index_of(const Collective& row);
  /// Numbers the signatures by their first rows, however nodes came after each other. Returns the new number of each
  /// old one; empty where nothing changes.
  std::vector<uint16_t> order_by_time();

 private:
  static uint64_t kind_of(const CallSignature& signature);
  std::vector<CallSignature>& signatures_;
  std::vector<int64_t> first_ns_;  // by signature: the earliest row, on the clock of its node
  std::unordered_map<uint64_t, uint16_t> index_;
  std::unordered_map<uint64_t, uint16_t> class_index_;  // by operation and size only
  CallSignature last_{.bytes = -2};                     // of no row
  uint16_t last_index_ = 0;
};

}  // namespace stalltrace::analysis
