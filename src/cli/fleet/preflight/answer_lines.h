// SPDX-License-Identifier: Apache-2.0
// The lines of JSON that answer POST /v1/preflight (docs/openapi.json, PreflightLine).
#pragma once

#include <string>

#include "base/result.h"
#include "serve/json/json.h"

namespace stalltrace::cli {

/// With its line end.
std::string line_of(const serve::Json& json);
/// The last line of tests that failed themselves.
std::string line_of(const Error& error);

}  // namespace stalltrace::cli
