// SPDX-License-Identifier: Apache-2.0
// Fuzzes the configuration file: any text is settings, or an error in words.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cli/config.h"
#include "tests/fuzz/rows.h"

using namespace stalltrace;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config = cli::parse_config({reinterpret_cast<const char*>(data), size}, "stalltrace.toml");
  require(config.has_value() ||
          (config.error().what.starts_with("stalltrace.toml line ") && config.error().kind == ErrorKind::kUsage));
  return 0;
}
