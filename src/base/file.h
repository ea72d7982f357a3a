// SPDX-License-Identifier: Apache-2.0
// Small files: /proc, sysfs, JSON side files.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace stalltrace {

/// The whole of a file (also of /proc files, whose size is unknown), at most `limit_bytes`.
Result<std::string> read_file(const std::string& path, size_t limit_bytes = 16U << 20);

/// Writes to `path` atomically: a temporary file beside it, then a rename. Mode 0644.
Status write_file(const std::string& path, std::string_view content);

}  // namespace stalltrace
