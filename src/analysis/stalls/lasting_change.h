// SPDX-License-Identifier: Apache-2.0
// Whether durations became longer once and for good, as they do from the moment on at which a fault begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace stalltrace::analysis {

/// How many of the values, which are in time order, lie before the change; none where chance may have ordered them so.
/// By Pettitt's test, which looks at ranks alone: A. N. Pettitt, "A non-parametric approach to the change-point
/// problem", Applied Statistics 28 (1979). By how much they changed it does not say. n log n.
std::optional<size_t> shorter_before(std::span<const uint32_t> values);

}  // namespace stalltrace::analysis
