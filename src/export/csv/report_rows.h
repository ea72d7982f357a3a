// SPDX-License-Identifier: Apache-2.0
// What an analysis adds to a recording's tables, as rows: its findings, and how the nodes' clocks compare.
#pragma once

#include <span>

#include "model/finding.h"
#include "model/node_clock.h"
#include "model/table_rows.h"

namespace stalltrace::trace_export {

/// With the column names of the table `finding`.
Status put_finding_rows(std::span<const Finding> findings, RowSink& sink);
/// node_id, moved_by_ns, known_within_ns, drift_ppm, drift_at_ns, known_by
Status put_clock_rows(std::span<const NodeClock> clocks, RowSink& sink);

}  // namespace stalltrace::trace_export
