// SPDX-License-Identifier: Apache-2.0
// Results of nccl-tests. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stalltrace::analysis {

/// A result of nccl-tests is an outlier if it is slower than its neighbours by this factor: where NCCL changes its
/// protocol or algorithm, curves of healthy systems have steps of up to a third.
inline constexpr double kOutlierFactor = 1.5;
/// A run with less than this share of another run's bus bandwidth is slower: repeated runs differ by a few percent.
inline constexpr double kSlowerRunShare = 0.8;
/// Runs with fewer results in common are not compared ...
inline constexpr size_t kSizesCompared = 3;
/// ... and smaller sizes only if there are no such: they show latency, which varies more than bandwidth.
inline constexpr int64_t kBandwidthBytes = 1'048'576;

}  // namespace stalltrace::analysis
