// SPDX-License-Identifier: Apache-2.0
// Can this host be traced? Each thing the tracer needs, tried for real, with the remedy where it is refused.
#pragma once

#include <string>
#include <vector>

namespace stalltrace::capture {

struct CheckLine {
  bool ok = false;
  bool required = false;  // tracing is impossible without it; otherwise something is missing from the recording
  std::string what;
  std::string detail;
  std::string remedy;  // empty when ok
};

std::vector<CheckLine> check_host();

}  // namespace stalltrace::capture
