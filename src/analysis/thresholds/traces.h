// SPDX-License-Identifier: Apache-2.0
// Profiler traces. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

namespace stalltrace::analysis {

/// A rank is late if it is this share of a step longer outside of communication than the median of the ranks, and they
/// are that much longer in communication than it: below, ranks of healthy jobs differ, and steps do.
inline constexpr double kLateStepShare = 0.1;
/// A step is an outlier if it took this many times the median of its trace.
inline constexpr double kOutlierStep = 1.5;
/// Traces with fewer steps have no median worth a comparison.
inline constexpr int64_t kLeastSteps = 3;

}  // namespace stalltrace::analysis
