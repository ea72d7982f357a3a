// SPDX-License-Identifier: Apache-2.0
// Bounds on the clock offsets of hosts, from how far off their kernels report their clocks to be.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "analysis/timeline/clock.h"
#include "analysis/timeline/clock_offsets/offset_bounds.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// What the kernel of a host that keeps UTC reported at one time.
struct UtcReading {
  int64_t at_ns = 0;     // by the clock of the host's recordings
  int64_t ahead_ns = 0;  // UTC is ahead of that clock by this
  int64_t error_ns = 0;  // give or take this

  [[nodiscard]] int64_t utc_ns() const { return at_ns + ahead_ns; }
};

/// By host, in time order.
using KernelClocks = std::map<size_t, std::vector<UtcReading>>;

/// Readings of hosts whose clocks nothing keeps right are left out, and of long recordings all but every n-th.
Result<KernelClocks> load_kernel_clocks(EventSource& source, const Clock& clock);

/// False if a host's clock was set by more than the kernel had reported it to be off: its other reports are no better.
/// The clock of the recordings is never set, and drifts by no more than kMostDriftPpm.
bool agree(std::span<const UtcReading> readings);

/// What is to be added to the times of a host to be on the clock of another one, at the time of each of its readings:
/// both are UTC then. The readings of two hosts that are compared are those that are closest together; between them
/// the clocks drift by up to kClockDriftPpm.
std::vector<TimedBounds> bounds_between(std::span<const UtcReading> reference, std::span<const UtcReading> host);

/// Narrows the bounds of all hosts by what their kernels and that of the reference report, where that does not
/// contradict the bounds that they have.
void narrow_by_kernel_clocks(const KernelClocks& clocks, OffsetBounds& bounds);

}  // namespace stalltrace::analysis
