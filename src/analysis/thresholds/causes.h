// SPDX-License-Identifier: Apache-2.0
// When evidence explains a stall, and how sure that is. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

namespace stalltrace::analysis {

/// A cause must cover at least half of a stall; otherwise most of the time was lost elsewhere.
inline constexpr double kCoverage = 0.5;

/// The most confidence in the rank that entered another call than all had before, where as many entered that one.
inline constexpr double kByHistoryConfidence = 0.9;

/// A less direct rule must cover this much more of a stall to be chosen.
inline constexpr double kDirectnessMargin = 0.15;
/// Maximum confidence of a finding: no evidence is complete.
inline constexpr double kMaxConfidence = 0.99;
/// Confidence of `unknown`: the lost time is certain, its location and cause are not.
inline constexpr double kUnknownConfidence = 0.3;
/// Confidence of `slow_device`: which device is behind is certain, whether it is slow or has more to do is not.
inline constexpr double kSlowDeviceConfidence = 0.8;
/// A rank launched some calls of a step, without ends, and not the next one: that it is outside follows from where it
/// synchronised before.
inline constexpr double kStoppedInStepConfidence = 0.8;
/// Ranks launched calls of two communicators in different orders and then wait in a call that does not return: that
/// their devices wait for each other follows from no end that was seen.
inline constexpr double kLaunchOrderConfidence = 0.8;

}  // namespace stalltrace::analysis
