// SPDX-License-Identifier: Apache-2.0
// Small files: /proc, sysfs, JSON side files.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace stalltrace {

/// The whole of a file (also of /proc files, whose size is unknown), at most `limit_bytes`.
Result<std::string> read_file(const std::string& path, size_t limit_bytes = 16U << 20);

/// Writes to `path`: it is replaced by the whole new file, or stays. Returns once it is stored on the disk. A link of
/// that name is replaced, not followed.
Status write_file(const std::string& path, std::string_view content, mode_t mode = 0600);

}  // namespace stalltrace
