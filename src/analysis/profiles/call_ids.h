// SPDX-License-Identifier: Apache-2.0
// The ids of calls, which the timeline does not hold.
#pragma once

#include <optional>

#include "analysis/timeline/timeline.h"
#include "base/result.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// The id of the call with this number in a call sequence; none if the source has no such row. Reads the collectives
/// that overlap its arrival.
Result<std::optional<EventId>> find_call_id(EventSource& source, const Cluster& cluster, const Timeline& timeline,
                                            uint32_t sequence, int64_t number);

}  // namespace stalltrace::analysis
