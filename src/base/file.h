// SPDX-License-Identifier: Apache-2.0
// Small files: /proc, sysfs, JSON side files.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

/// Opens a file that may be anything by now: never waits, for a FIFO's other end as little as for a lease.
/// `more_flags`: such as O_NOFOLLOW. Errors: not there, not readable, no regular file.
Result<UniqueFd> open_regular(const std::string& path, int more_flags = 0);

/// The whole of a file (also of /proc files, whose size is unknown), at most `limit_bytes`.
Result<std::string> read_file(const std::string& path, size_t limit_bytes = 16U << 20);

/// Writes to `path`: it is replaced by the whole new file, or stays. Returns once it is stored on the disk. A link of
/// that name is replaced, not followed.
Status write_file(const std::string& path, std::string_view content, mode_t mode = 0600);

}  // namespace stalltrace
