// SPDX-License-Identifier: Apache-2.0
// The packet captures in a report.
#pragma once

#include <string>

#include "report/page.h"

namespace stalltrace::report {

/// "1 packet capture"; empty without any
std::string captures_text(const Report& report);
/// One block a capture; nothing without any.
void write_captures(Page& page, const Report& report);

}  // namespace stalltrace::report
