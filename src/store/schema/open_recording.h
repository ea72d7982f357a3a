// SPDX-License-Identifier: Apache-2.0
// The only way to open a recording for reading, whatever its origin: its file, then its schema. Internal to store/.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "store/sqlite/guard.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// Opens `path`, which is untrusted, for reading only (sqlite/open.h) and checks that it is a recording; for
/// kSubcommand also its schema (known_schema.h). All readers of recordings use this or attach_for_reading, which set
/// the same limits on the connection (guard.h), including `deadline_ns`. Errors begin with the path, or with `name`
/// where it is given.
Result<Database> open_for_reading(const std::string& path, ReaderKind kind = ReaderKind::kSubcommand,
                                  int64_t deadline_ns = 0);
Result<Database> open_for_reading(const std::string& path, const std::string& name, ReaderKind kind,
                                  int64_t deadline_ns);

/// Attaches `path` to a connection of our own file as `input`, opened and checked like open_for_reading. Errors
/// begin with the path.
Status attach_for_reading(Database& db, const std::string& path);

}  // namespace stalltrace::store
