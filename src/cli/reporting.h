// SPDX-License-Identifier: Apache-2.0
// What `explain` and `lab run` share: recordings in, a report out, as text or
// JSON.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "cli/console.h"
#include "cli/time_point.h"
#include "model/finding.h"

namespace stalltrace::cli {

/// The part of the recordings to judge; relative times count from the start of
/// the earliest recording.
struct TimeWindow {
  std::optional<TimePoint> from;
  std::optional<TimePoint> to;
};

/// Explains the recordings together.
Result<Report> explain_recordings(std::span<const std::string> paths, const TimeWindow& window = {});

/// For people, with colour where the output is a terminal that wants it.
void print_report(Console& console, const Report& report);

}  // namespace stalltrace::cli
