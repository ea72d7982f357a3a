// SPDX-License-Identifier: Apache-2.0
// Runs a user's statement on an open connection. Internal to store/.
#pragma once

#include <string>
#include <string_view>

#include "store/query.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// `db` is guarded as ReaderKind::kQuery. `path` is for error messages. Errors are those of query_recording.
Status run_query(Database& db, const std::string& path, std::string_view sql, const QueryOptions& options,
                 RowSink& sink);

}  // namespace stalltrace::store
