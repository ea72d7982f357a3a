// SPDX-License-Identifier: Apache-2.0
// Lines of NCCL's Inspector. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// A rank is last in an instance if its part took at most this share of the next shortest, as no scatter does ...
inline constexpr double kInspectorShortShare = 0.5;
/// ... and was this much below the median of the others: kernels of one instance differ by less in a job in step.
inline constexpr int64_t kInspectorWaitNs = kNsPerMs;
/// It is to blame if it was last in this many instances of one operation and communicator ...
inline constexpr int64_t kInspectorInstances = 10;
/// ... and in this share of them: who is last changes in a job in step.
inline constexpr double kInspectorLateShare = 0.5;

}  // namespace stalltrace::analysis
