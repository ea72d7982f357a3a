// SPDX-License-Identifier: Apache-2.0
#include "preflight/host_check.h"

#include <linux/magic.h>
#include <sys/vfs.h>

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

Result<std::string> read_plain_file(const std::string& path, size_t limit_bytes) {
  ST_ASSIGN(const UniqueFd file, open_regular(path));
  struct statfs system {};
  if (::fstatfs(file.get(), &system) != 0 || system.f_type == PROC_SUPER_MAGIC) {
    return fail(path + " is no plain file", "name a file on a disk");
  }
  return read_file("/proc/self/fd/" + std::to_string(file.get()), limit_bytes);
}

}  // namespace stalltrace::preflight
