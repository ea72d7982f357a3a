// SPDX-License-Identifier: Apache-2.0
// The columns of a table, as its file declares them. Internal to store/.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

struct DeclaredColumn {
  std::string name;
  std::string type;
  bool has_default = false;
  bool is_key = false;     // part of the primary key
  bool is_hidden = false;  // computed, or of a virtual table
};

/// In their order; empty if there is no such table. `schema`: the name of an attached file, such as "input"; empty: the
/// connection's own.
Result<std::vector<DeclaredColumn>> declared_columns(Database& db, std::string_view table,
                                                     std::string_view schema = {});

/// The names of those that are not hidden.
Result<std::set<std::string, std::less<>>> visible_columns(Database& db, std::string_view table,
                                                           std::string_view schema = {});

}  // namespace stalltrace::store
