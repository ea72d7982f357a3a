// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/host/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "base/text.h"

namespace stalltrace::lab {
namespace {

std::string lock_path() { return std::string(kStateFolder) + "/lock"; }

/// True while the name still leads to the open file: a holder that ended may have removed it.
bool still_named(int fd) {
  struct stat open_file {};
  struct stat named {};
  return ::fstat(fd, &open_file) == 0 && ::stat(lock_path().c_str(), &named) == 0 && open_file.st_ino == named.st_ino;
}

}  // namespace

Result<LabLock> LabLock::take() {
  for (;;) {
    if (::mkdir(std::string(kStateFolder).c_str(), 0755) != 0 && errno != EEXIST) {
      return fail_errno(fmt::format("create {}", kStateFolder), errno);
    }
    UniqueFd fd(::open(lock_path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!fd) {
      if (errno == ENOENT) {
        continue;  // another lab ended between the two calls
      }
      return fail_errno("open " + lock_path(), errno);
    }
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      const std::string holder(trim(read_file(lock_path()).value_or("")));
      return fail(fmt::format("a lab is running already (process {})", holder.empty() ? "unknown" : holder),
                  "wait for it, or end it with Ctrl-C (SIGINT)");
    }
    if (!still_named(fd.get())) {
      continue;
    }
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), pid.data(), pid.size(), 0) < 0) {
      return fail_errno("write " + lock_path(), errno);
    }
    return LabLock(std::move(fd));
  }
}

LabLock::~LabLock() {
  if (fd_) {
    ::unlink(lock_path().c_str());
    ::rmdir(std::string(kStateFolder).c_str());
  }
}

}  // namespace stalltrace::lab
