// SPDX-License-Identifier: Apache-2.0
// Which rows POST /v1/rows asks for, as JSON (docs/serve.md).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/events/ids.h"
#include "model/time_range.h"

namespace stalltrace::serve {

struct RowsRequest {
  struct Read {
    std::string table;
    TimeRange range;             // rows that belong to it; not for tables that are read completely
    bool narrow = false;         // only what matters to `windows`
    std::vector<EventId> after;  // of a table with event ids: of each one's node rows with greater ids alone
  };
  std::vector<Read> reads;
  std::vector<TimeRange> windows;       // around stalls, on the common clock
  std::map<NodeId, int64_t> shifts_ns;  // to be added to the times of a node to be on it
};

/// More windows are joined with their neighbours, which asks for more rows than are needed.
inline constexpr size_t kMostWindows = 4096;

std::string to_json(const RowsRequest& request);
/// Errors (kUsage): not such an object, a member that it does not have, or a table that recordings have not or that is
/// named twice.
Result<RowsRequest> parse_rows_request(std::string_view text);

/// `windows` in order and disjoint. At most kMostWindows: those with the shortest gaps between them are joined.
std::vector<TimeRange> joined_windows(std::vector<TimeRange> windows);

}  // namespace stalltrace::serve
