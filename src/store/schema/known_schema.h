// SPDX-License-Identifier: Apache-2.0
// A recording's schema against those that this program makes. Internal to store/.
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

/// Fails unless every table, index and view of `database` ("main", or as attached) is declared as in one of our schema
/// versions, and nothing else is declared: no other column, default, CHECK, collation, trigger or virtual table. What
/// an older version lacks may be missing. White space is not compared.
Status check_known_schema(Database& db, const char* database = "main");

/// By type, name and table: the declarations that each has in our schema versions, without the white space that means
/// nothing.
using Declarations = std::map<std::tuple<std::string, std::string, std::string>, std::set<std::string>>;
/// From the text of migrations; none where a statement is of a form that this does not know. It takes a tenth of the
/// time of the other; a test compares the two.
std::optional<Declarations> declarations_in(std::span<const char* const> steps);
/// As SQLite keeps them.
Result<Declarations> declarations_by_sqlite(std::span<const char* const> steps);

}  // namespace stalltrace::store
