// SPDX-License-Identifier: Apache-2.0
// What traces of a profiler show: communication that no computation hides, a rank for which the others wait, steps that
// took longer. A rank is only judged by comparison with the others.
#pragma once

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds the traces in `source` to the report.
Status add_profiles(EventSource& source, Report& report);

}  // namespace stalltrace::analysis
