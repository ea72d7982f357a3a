// SPDX-License-Identifier: Apache-2.0
// The rows of a source's tables as values, with the column names and in the form of a recording (docs/recording.md).
#pragma once

#include <string_view>
#include <vector>

#include "model/source.h"
#include "model/table_rows.h"

namespace stalltrace::store {

/// The tables that a source has: those of all event types, in the order of docs/recording.md.
std::vector<std::string_view> tables_of_events();

/// Passes the columns and then the rows of one table that belong to `range` to the sink; of a table without times, all
/// rows. A streamed table comes in time order. `table` is one of tables_of_events(). Once the sink wants no more rows,
/// the rest is skipped. The column `id`, which only numbers the rows of a table, is not among them.
Status read_table(EventSource& source, std::string_view table, TimeRange range, RowSink& sink);

}  // namespace stalltrace::store
