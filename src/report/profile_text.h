// SPDX-License-Identifier: Apache-2.0
// The traces of profilers in a report.
#pragma once

#include <string>

#include "report/page.h"

namespace stalltrace::report {

/// "8 profiler traces"; empty without any
std::string profiles_text(const Report& report);
/// One block a trace; nothing without any.
void write_profiles(Page& page, const Report& report);

}  // namespace stalltrace::report
