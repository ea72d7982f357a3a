// SPDX-License-Identifier: Apache-2.0
// The runs of benchmarks in a report.
#pragma once

#include <string>

#include "report/page.h"

namespace stalltrace::report {

/// "2 benchmarks, 1 of them failed"; empty without any
std::string benchmarks_text(const Report& report);
/// One block a run; nothing without any.
void write_benchmarks(Page& page, const Report& report);

}  // namespace stalltrace::report
