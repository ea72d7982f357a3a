// SPDX-License-Identifier: Apache-2.0
#include "preflight/host_check.h"

#include <algorithm>

#include "base/file.h"
#include "base/text.h"

namespace stalltrace::preflight {

std::string_view to_text(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kWarning:
      return "warning";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kUnknown:
      return "unknown";
  }
  return {};
}

bool HostReport::failed() const {
  return std::ranges::any_of(checks, [](const HostCheck& check) { return check.outcome == Outcome::kFailed; });
}

std::string HostFiles::read(const std::string& path) {
  const Result<std::string> content = read_file(path, 1U << 20);
  return content ? std::string(trim(*content)) : std::string();
}

}  // namespace stalltrace::preflight
