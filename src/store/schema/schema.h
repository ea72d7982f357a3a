// SPDX-License-Identifier: Apache-2.0
// The schema of a recording and its history: ordered migrations in SQL. docs/recording.md specifies every column.
// Internal to store/.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// SQLite's application_id of a recording: "STLT".
inline constexpr int64_t kApplicationId = 0x53544c54;

/// Step n migrates a recording from schema version n to n + 1.
std::span<const char* const> migrations();
/// The version that this program writes: the number of migrations. Stored in SQLite's user_version.
int64_t schema_version();

/// Runs the missing steps in one transaction; an empty database becomes a recording. Fails on a newer schema.
Status migrate(Database& db, std::span<const char* const> steps = migrations());

/// Checks that `db` is a recording that this program can read; the error says what it is instead.
Status check_schema(Database& db);

}  // namespace stalltrace::store
