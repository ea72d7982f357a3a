// SPDX-License-Identifier: Apache-2.0
// A flag whose value is a point in time (model/parse/time_point.h).
#pragma once

#include <optional>
#include <string>

#include "cli/framework/flag.h"
#include "model/time_window.h"

namespace stalltrace::cli {

Flag time_point_flag(std::string name, std::string help, std::optional<TimePoint>* target);

}  // namespace stalltrace::cli
