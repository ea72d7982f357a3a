// SPDX-License-Identifier: Apache-2.0
// What the test of collectives measured, as text and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "preflight/peers/collectives/results.h"

namespace stalltrace::preflight {

/// A table of sizes and operations; empty where nothing was measured.
std::string collectives_text(const CollectiveResults& results);
nlohmann::ordered_json collectives_json(const CollectiveResults& results);

}  // namespace stalltrace::preflight
