// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/files/new_file.h"
#include "base/handle.h"
#include "base/text.h"

namespace stalltrace {
namespace {

/// As the kernel says: 0 for pipes, and for /proc, whose files have a size only when they are read.
uint64_t size_of(const UniqueFd& fd) {
  struct stat info {};
  return ::fstat(fd.get(), &info) == 0 && info.st_size > 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

/// Up to `limit_bytes`. Takes no more memory than the file has bytes, unless it grows in the meantime.
Result<std::string> read_all(const UniqueFd& fd, const std::string& path, size_t limit_bytes) {
  std::string content;
  content.reserve(std::min<uint64_t>(size_of(fd), limit_bytes));
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

}  // namespace

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
  return read_all(fd, path, limit_bytes);
}

Result<std::string> read_whole(const std::string& path, size_t most_bytes) {
  ST_ASSIGN(const UniqueFd fd, open_regular(path));
  const auto too_large = [&] {
    return fail(path + ": larger than " + format_size(static_cast<int64_t>(most_bytes)), {}, ErrorKind::kCorrupt);
  };
  if (size_of(fd) > most_bytes) {
    return too_large();
  }
  ST_ASSIGN(std::string content, read_all(fd, path, most_bytes + 1));
  return content.size() > most_bytes ? too_large() : Result<std::string>(std::move(content));
}

Status write_file(const std::string& path, std::string_view content, mode_t mode) {
  ST_ASSIGN(NewFile file, NewFile::create(path, mode));
  ST_TRY(file.append(content));
  return file.publish(IfThere::kReplace);
}

}  // namespace stalltrace
