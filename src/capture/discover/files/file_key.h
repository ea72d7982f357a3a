// SPDX-License-Identifier: Apache-2.0
// The file of a mapping, by user, so that no user's file can pass for another's.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <string>

#include "base/process/procfs.h"

namespace stalltrace::capture {

struct FileKey {
  uid_t user = 0;
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint64_t inode = 0;
  std::string path;

  FileKey(uid_t whose, const MappedFile& mapping)
      : user(whose),
        device_major(mapping.device_major),
        device_minor(mapping.device_minor),
        inode(mapping.inode),
        path(mapping.path) {}
  auto operator<=>(const FileKey&) const = default;
};

}  // namespace stalltrace::capture
