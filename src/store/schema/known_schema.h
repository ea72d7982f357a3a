// SPDX-License-Identifier: Apache-2.0
// Compares a recording's schema with those that this program makes. Internal to store/.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>

#include "base/result.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// Fails unless every table, index and view of `database` ("main", or an attached one) is declared as in one of our
/// schema versions, and there is nothing else: no other column, default, CHECK, collation, trigger or virtual table.
/// Parts that an older version lacks may be missing. White space is not compared.
Status check_known_schema(Database& db, const char* database = "main");

/// By type, name and table: the declarations in our schema versions, without insignificant white space.
using Declarations = std::map<std::tuple<std::string, std::string, std::string>, std::set<std::string>>;
/// From the text of the migrations; none if a statement has an unsupported form. Takes a tenth of the time of
/// declarations_by_sqlite(); a test compares both.
std::optional<Declarations> declarations_in(std::span<const char* const> steps);
/// The declarations in SQLite's own form.
Result<Declarations> declarations_by_sqlite(std::span<const char* const> steps);

}  // namespace stalltrace::store
