// SPDX-License-Identifier: Apache-2.0
// What NCCL's steps show, and who waited for whom. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// Shorter waits of a transfer's step prove nothing (the plugin's ST_BOX_LONG_WAIT_NS).
inline constexpr int64_t kLongStepNs = 5 * kNsPerMs;
/// Steps of a connection that can be in flight at a time (NCCL_STEPS): in a run of that many steps that wait long, only
/// the first has its own row (the plugin's ST_BOX_STEPS_UNDER_WAY, docs/profiler_file.md).
inline constexpr int32_t kStepsUnderWay = 8;
/// A step without its own row waited less than the long step for each of three things.
inline constexpr int64_t kUnrecordedStepNs = 3 * kLongStepNs;
/// Operations of a connection follow each other. One that ended up to this long after a record began still counts as
/// earlier, since the two times are read one after the other.
inline constexpr int64_t kSameMomentNs = kNsPerMs;
/// An edge of the wait-for graph must hold for this share of the time or of the samples; otherwise it is noise.
inline constexpr double kEdgeShare = 0.5;
/// By step evidence, a link is slow if no other link held data for half as long.
inline constexpr double kLinkHeldContrast = 2.0;
/// Maximum confidence of steps and arrivals without host evidence: they show where time went, not why.
inline constexpr double kProfilerAloneConfidence = 0.7;

}  // namespace stalltrace::analysis
