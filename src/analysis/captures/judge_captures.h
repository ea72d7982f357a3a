// SPDX-License-Identifier: Apache-2.0
// What packet captures show: connections that repeat what is not acknowledged, only full-size segments that get lost,
// retransmissions and the host that they have in common, receivers that do not read, resets.
#pragma once

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds the captures in `source` to the report. Flows are joined to ranks by the connections of recordings.
Status add_captures(EventSource& source, Report& report);

}  // namespace stalltrace::analysis
