// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files/new_file.h"
#include "base/handle.h"

namespace stalltrace {

Result<UniqueFd> open_regular(const std::string& path, int more_flags) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | more_flags));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    return fail_errno("open " + path, errno);
  }
  return S_ISREG(info.st_mode)
             ? Result<UniqueFd>(std::move(fd))
             : fail(path + ": not a file, but " + (S_ISDIR(info.st_mode) ? "a folder" : "a device or a FIFO"), {},
                    ErrorKind::kCorrupt);
}

Result<std::string> read_file(const std::string& path, size_t limit_bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return fail_errno("open " + path, errno);
  }
  std::string content;
  char buffer[16384];
  while (content.size() < limit_bytes) {
    const ssize_t got = ::read(fd.get(), buffer, std::min(sizeof buffer, limit_bytes - content.size()));
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail_errno("read " + path, errno);
    }
    if (got == 0) {
      break;
    }
    content.append(buffer, static_cast<size_t>(got));
  }
  return content;
}

Status write_file(const std::string& path, std::string_view content, mode_t mode) {
  ST_ASSIGN(NewFile file, NewFile::create(path, mode));
  ST_TRY(file.append(content));
  return file.publish(IfThere::kReplace);
}

}  // namespace stalltrace
