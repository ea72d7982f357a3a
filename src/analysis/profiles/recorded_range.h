// SPDX-License-Identifier: Apache-2.0
// The time that the recordings cover.
#pragma once

#include "analysis/timeline/timeline.h"
#include "base/result.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// An interrupted recording has no end of its own: it ends with the last row of any table. Extends `timeline` to it.
Status find_end(EventSource& source, const Cluster& cluster, Timeline& timeline);

/// From the first arrival or set-up call to the end; without either, from the start of the first agent.
TimeRange recorded_range(const Cluster& cluster, const Timeline& timeline);

}  // namespace stalltrace::analysis
