// SPDX-License-Identifier: Apache-2.0
// A report for people: the verdict first, then location, time, cost, evidence and remedy.
#pragma once

#include <string>

#include "model/finding.h"

namespace stalltrace::report {

struct TextOptions {
  bool colour = false;
  bool all = false;  // also what would make the report longer than a few pages, such as the thousandth finding
};

/// Lines, each with a final newline. Control characters in names are replaced.
std::string report_to_text(const Report& report, const TextOptions& options = {});

}  // namespace stalltrace::report
