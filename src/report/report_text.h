// SPDX-License-Identifier: Apache-2.0
// A report for people: the verdict first, then where, when, at what cost, the evidence, and what to do.
#pragma once

#include <string>

#include "model/finding.h"

namespace stalltrace::report {

struct TextOptions {
  bool colour = false;
};

/// Lines with a newline at the end of each. Control characters in names are replaced.
std::string report_to_text(const Report& report, const TextOptions& options = {});

}  // namespace stalltrace::report
