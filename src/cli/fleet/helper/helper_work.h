// SPDX-License-Identifier: Apache-2.0
// What a server's helper process does for clients: a row for each kind of helper.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stalltrace::cli {

/// What one request starts.
struct HelperTask {
  int64_t limit_ns = 0;  // then it is ended
  /// Writes the lines of the answer (answer_lines.h) to `out`, in a process of its own with limited memory; returns its
  /// exit code.
  std::function<int(int out)> run;
};

struct HelperWork {
  std::string_view flag;          // of the server, which allows it
  const char* process_name = "";  // 15 bytes at most
  std::string_view it;            // as messages name it: "the tests"
  std::string_view busy;          // why a second request at the same time is refused
  std::string_view ask_for_less;  // remedy where it takes too long, or its answer is too large
  bool keeps_rights = false;      // those of the server's start; else it has none, and root's has another user
  /// Reads a request. Errors (kUsage): it is none.
  Result<HelperTask> (*read)(const std::string& request) = nullptr;
};

}  // namespace stalltrace::cli
