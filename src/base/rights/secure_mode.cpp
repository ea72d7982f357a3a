// SPDX-License-Identifier: Apache-2.0
#include "base/rights/secure_mode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>

namespace stalltrace {

bool in_secure_mode() { return ::getauxval(AT_SECURE) != 0; }

const char* trusted_variable(const char* name) { return in_secure_mode() ? nullptr : std::getenv(name); }

std::vector<std::string> ignored_in_secure_mode(const char* const* environment) {
  std::vector<std::string> names;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const std::string_view name = entry.substr(0, entry.find('='));
    if (name == "STALLTRACE_BTF" || name == "TMPDIR") {
      names.emplace_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

std::string secure_mode_line(bool secure, const char* const* environment) {
  const std::vector<std::string> names = secure ? ignored_in_secure_mode(environment) : std::vector<std::string>();
  return names.empty() ? ""
                       : fmt::format(
                             "ignored: {}, since this program has rights that its user lacks (file "
                             "capabilities or set-user-ID)",
                             fmt::join(names, ", "));
}

}  // namespace stalltrace
