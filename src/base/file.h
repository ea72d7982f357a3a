// SPDX-License-Identifier: Apache-2.0
// Small files: /proc, sysfs, JSON side files.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

/// Opens an untrusted path without ever waiting, neither for a FIFO's other end nor for a lease. `more_flags`: such as
/// O_NOFOLLOW. Errors: not found, not readable, not a regular file.
Result<UniqueFd> open_regular(const std::string& path, int more_flags = 0);

/// The whole file (also a /proc file or a pipe, whose size is unknown), at most `limit_bytes`.
Result<std::string> read_file(const std::string& path, size_t limit_bytes = 16U << 20);
/// An untrusted file as a whole. Errors: those of open_regular, and "PATH: larger than ...", before anything is read
/// unless it grows at that moment.
Result<std::string> read_whole(const std::string& path, size_t most_bytes);

/// Writes to `path` atomically: it is replaced by the complete new file, or unchanged. Returns once the file is stored
/// on disk. A link of that name is replaced, not followed.
Status write_file(const std::string& path, std::string_view content, mode_t mode = 0600);

}  // namespace stalltrace
