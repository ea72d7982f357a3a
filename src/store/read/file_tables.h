// SPDX-License-Identifier: Apache-2.0
// Which tables a recording has, and which of them have rows: most have none, and thousands of files are read. Internal
// to store/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

class FileTables {
 public:
  FileTables() = default;
  /// `complete`: no process writes the file and it has no log, so that its pages are its content. Errors: those of
  /// SQLite. A page that can't be read counts as one with rows: who reads the table finds what is wrong.
  static Result<FileTables> read(Database& db, bool complete);

  /// True if the table certainly has no rows, or is not there.
  [[nodiscard]] bool is_empty(std::string_view table) const;
  /// All declarations. Files with the same ones have the same columns.
  [[nodiscard]] const std::string& declarations() const { return declarations_; }
  /// Frees that text, once the caller knows which one it is.
  void forget_declarations() { declarations_ = std::string(); }

 private:
  bool complete_ = false;
  std::vector<std::string> with_rows_;  // ascending; only of a complete file
  std::string declarations_;
};

}  // namespace stalltrace::store
