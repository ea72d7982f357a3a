// SPDX-License-Identifier: Apache-2.0
// A report as JSON, schema 1 (docs/findings.md), for programs.
#pragma once

#include <string>

#include "model/finding.h"

namespace stalltrace {

/// One object, two-space indented, with a newline at its end. Hashes are "0x..." strings, times UTC nanoseconds.
std::string report_to_json(const Report& report);

}  // namespace stalltrace
