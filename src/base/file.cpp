// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

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

Status write_file(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp" + std::to_string(::getpid());
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) {
    return fail_errno("create " + temporary, errno);
  }
  const auto give_up = [&](std::string_view what) {
    const int error_number = errno;
    ::unlink(temporary.c_str());
    return fail_errno(std::string(what) + " " + path, error_number);
  };
  while (!content.empty()) {
    const ssize_t put = ::write(fd.get(), content.data(), content.size());
    if (put < 0) {
      if (errno == EINTR) {
        continue;
      }
      return give_up("write");
    }
    content.remove_prefix(static_cast<size_t>(put));
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    return give_up("rename");
  }
  return {};
}

}  // namespace stalltrace
