// SPDX-License-Identifier: Apache-2.0
// The part of a report that comes from logs and dumps.
#pragma once

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds to a report on `recorded` what `ordered` shows, a source of nodes without durations (node_filter.h).
Status add_order(EventSource& ordered, EventSource& recorded, Report& report);

}  // namespace stalltrace::analysis
