// SPDX-License-Identifier: Apache-2.0
// A recording's schema against those that this program makes. Internal to store/.
#pragma once

#include "base/result.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// Fails unless every table, index and view of `database` ("main", or as attached) is declared as in one of our schema
/// versions, and nothing else is declared: no other column, default, CHECK, collation, trigger or virtual table. What
/// an older version lacks may be missing. White space is not compared.
Status check_known_schema(Database& db, const char* database = "main");

}  // namespace stalltrace::store
