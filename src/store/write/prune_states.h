// SPDX-License-Identifier: Apache-2.0
// Removes rows about what has ended (processes, communicators, connections) from a recording of limited size. Streamed
// rows refer to them by pid and cookie: such a row goes when the rows of its time are gone. Internal to store/.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/events.h"
#include "model/time_range.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// Removes rows of `node` that ended before `before_ns`, except those that lived in one of the windows `keep`; the
/// earliest ended first, at most `most` of each table. One transaction, which counts them in `loss`. Returns the number
/// of rows removed, by table.
Result<std::map<std::string, uint64_t>> prune_ended_states(Database& db, NodeId node, int64_t before_ns,
                                                           const std::vector<TimeRange>& keep, size_t most);

/// Adds to the row 'pruned:TABLE' of `loss`. In the transaction that removes the rows, so that a kill loses neither or
/// both.
Status count_pruned(Database& db, NodeId node, const std::string& table, uint64_t count);

}  // namespace stalltrace::store
