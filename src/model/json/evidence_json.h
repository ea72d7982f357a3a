// SPDX-License-Identifier: Apache-2.0
// Evidence as JSON: in reports, and in the table `finding`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/finding.h"

namespace stalltrace {

/// {kind, count, text, events}; `events` as "node_id:number", left out where there are none.
nlohmann::ordered_json evidence_to_json(const Evidence& evidence);

/// An array of these. Invalid UTF-8 is replaced.
std::string evidence_to_text(const std::vector<Evidence>& evidence);
/// The inverse. What has another form is left out or reads as empty.
std::vector<Evidence> evidence_from_text(const std::string& text);

}  // namespace stalltrace
