// SPDX-License-Identifier: Apache-2.0
// The lines of JSON that answer requests for a helper's work (docs/openapi.json, PreflightLine and AutopsyLine).
#pragma once

#include <string>

#include "base/result.h"
#include "serve/json/json.h"

namespace stalltrace::cli {

/// With its line end.
std::string line_of(const serve::Json& json);
/// The last line of work that failed itself.
std::string line_of(const Error& error);

}  // namespace stalltrace::cli
