// SPDX-License-Identifier: Apache-2.0
// Live findings that are written into a recording in its writer's transactions. Owned by the writer, on its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "model/finding.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// Keeps the newest state of each finding, by number, until it is written.
class FindingTable {
 public:
  Status prepare(Database& db);
  void accept(int64_t finding_id, Finding finding);
  [[nodiscard]] size_t buffered() const { return rows_.size(); }
  /// Returns SQLITE_DONE or the error's code. The rows stay until clear().
  int write();
  void clear() { rows_.clear(); }

 private:
  Statement upsert_;
  std::map<int64_t, Finding> rows_;
};

}  // namespace stalltrace::store
