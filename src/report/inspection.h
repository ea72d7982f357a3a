// SPDX-License-Identifier: Apache-2.0
// The inspection of one instance (`explain --instance`) as text and JSON.
#pragma once

#include <string>

#include "model/inspection.h"
#include "report/report_text.h"

namespace stalltrace::report {

std::string inspection_to_text(const Inspection& inspection, const TextOptions& options = {});
/// {"schema": 1, "instance": {...}}, docs/findings.md
std::string inspection_to_json(const Inspection& inspection);

}  // namespace stalltrace::report
