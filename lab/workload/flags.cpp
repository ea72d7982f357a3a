// SPDX-License-Identifier: Apache-2.0
#include "flags.h"

#include <algorithm>

namespace lab {

std::expected<void, std::string> parse_flags(int argc, char** argv, std::span<const Flag> flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--help" || name == "-h") {
      return std::unexpected(std::string());
    }
    const auto flag = std::ranges::find(flags, name, &Flag::name);
    if (flag == flags.end()) {
      return std::unexpected("unknown option " + std::string(name) + "; --help lists them");
    }
    if (flag->takes_value && i + 1 == argc) {
      return std::unexpected(std::string(name) + " needs a value");
    }
    const std::string_view value = flag->takes_value ? argv[++i] : "";
    if (!flag->set(value)) {
      return std::unexpected(std::string(name) + ": '" + std::string(value) + "' is not a value it takes");
    }
  }
  return {};
}

}  // namespace lab
