// SPDX-License-Identifier: Apache-2.0
// The order of a recording's rows as far as its zone maps (zone_map.h) show it. Internal to store/.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/source.h"
#include "store/read/node_runs.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// A range of ids [first_id, end_id) of a streamed table.
struct RowGroup {
  int64_t first_id;
  int64_t end_id;
  int64_t later_min_ns;  // no row of a later row group starts before; kForever for the last
};

/// The row groups of `run` in `table` that can contain rows of `range`, ascending.
Result<std::vector<RowGroup>> row_groups_of(Database& db, std::string_view table, const NodeRun& run, TimeRange range);

}  // namespace stalltrace::store
