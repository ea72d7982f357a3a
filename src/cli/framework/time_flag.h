// SPDX-License-Identifier: Apache-2.0
// A flag whose value is a point in time (model/parse/time_point.h).
#pragma once

#include <optional>
#include <string>

#include "cli/framework/flag.h"
#include "model/time_window.h"

namespace stalltrace::cli {

/// Parses only: a time relative to the first collective is resolved when the recording is read. A text that is no time
/// is an error of usage (exit code 2) and leaves `*target` as it was, which must outlive the flag.
Flag time_point_flag(std::string name, std::string help, std::optional<TimePoint>* target);

}  // namespace stalltrace::cli
