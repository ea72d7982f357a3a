// SPDX-License-Identifier: Apache-2.0
// Numbers of ranks: which are missing, and as text.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace stalltrace::analysis {

/// The ranks from 0 to `world_size` - 1 that are not in `present`.
class MissingRanks {
 public:
  /// Time is that of `present`, whatever the world size.
  MissingRanks(const std::set<int32_t>& present, int32_t world_size);

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] int64_t count() const { return count_; }
  [[nodiscard]] int32_t world_size() const { return world_size_; }
  [[nodiscard]] int32_t first() const { return first_.front(); }
  /// As ranks_text() gives it.
  [[nodiscard]] std::string text() const;

 private:
  int32_t world_size_ = 0;
  int64_t count_ = 0;
  int32_t last_ = 0;
  std::vector<int32_t> first_;  // one more than are listed at most
};

/// "rank 1", "ranks 0 and 2", "ranks 0 to 6"; at most 16 that do not follow each other are listed. Not for an empty
/// list.
std::string ranks_text(std::vector<int32_t> ranks);

}  // namespace stalltrace::analysis
