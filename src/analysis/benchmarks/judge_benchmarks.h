// SPDX-License-Identifier: Apache-2.0
// What the outputs of benchmarks show: failures, sizes that are out of line with their neighbours, and runs that are
// slower than other runs of the same test. No number is judged without another one to compare it with.
#pragma once

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds the runs of benchmarks in `source` to the report.
Status add_benchmarks(EventSource& source, Report& report);

}  // namespace stalltrace::analysis
