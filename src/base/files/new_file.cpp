// SPDX-License-Identifier: Apache-2.0
#include "base/files/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/io/write_all.h"

namespace stalltrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".stalltrace-new-";
constexpr int kNamesTried = 100;
constexpr int kNew = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

/// Removes the files of processes that have ended: a living one holds its file's lock.
void remove_left_behind(int folder) {
  for_each_name(folder, [&](const std::string& name) {
    if (!name.starts_with(kTemporary)) {
      return;
    }
    // For writing: NFS 4 gives an exclusive lock to no other descriptor.
    const UniqueFd file(::openat(folder, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info {};
    if (file && ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
        ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      ::unlinkat(folder, name.c_str(), 0);
    }
  });
}

/// Takes the lock that keeps others from removing a file that was just made. False: one of them was quicker.
bool keep(int file) {
  struct stat info {};
  return (::flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&  // some file systems have no locks
         ::fstat(file, &info) == 0 && info.st_nlink > 0;
}

/// A new file with a random name.
UniqueFd create_named(int folder, std::string& name) {
  for (int attempt = 0; attempt < kNamesTried; ++attempt) {
    name = std::string(kTemporary) + random_letters(8);
    UniqueFd file(::openat(folder, name.c_str(), kNew, 0600));
    if (file ? keep(file.get()) : errno != EEXIST) {
      return file;
    }
  }
  errno = EEXIST;
  return {};
}

Status store(int file, const std::string& path) {
  return ::fsync(file) == 0 || errno == EINVAL || errno == EROFS  // EINVAL: not a file that can be synced
             ? Status()
             : fail_errno("store " + path, errno, "free some disk space");
}

Status close_stored(UniqueFd file, const std::string& path) {
  return ::close(file.release()) == 0 || errno == EINTR ? Status()
                                                        : fail_errno("close " + path, errno, "free some disk space");
}

std::string name_of(const std::string& path) { return fs::path(path).filename().string(); }

}  // namespace

Status store_and_close(UniqueFd file, const std::string& path) {
  ST_TRY(store(file.get(), path));
  return close_stored(std::move(file), path);
}

Result<NewFile> NewFile::create(const std::string& path, mode_t mode, UntilPublished until_published) {
  std::string parent = fs::path(path).parent_path().string();
  UniqueFd folder(::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    return fail_errno("create " + path, errno);
  }
  const bool named = until_published == UntilPublished::kRandomName;
  UniqueFd file(named ? -1 : ::openat(folder.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  std::string temporary;
  if (!file && (named || errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT)) {
    remove_left_behind(folder.get());
    file = create_named(folder.get(), temporary);
  }
  if (!file) {
    return fail_errno("create " + path, errno);
  }
  NewFile made(std::move(folder), std::move(file), std::move(temporary), path);
  if (::fchmod(made.descriptor(), mode) != 0) {
    return fail_errno("create " + path, errno);
  }
  return made;
}

NewFile::~NewFile() {
  if (file_ && !temporary_.empty()) {
    ::unlinkat(folder_.get(), temporary_.c_str(), 0);
  }
}

Status NewFile::append(std::string_view bytes) {
  return write_all(file_.get(), bytes) ? Status() : fail_errno("write " + path_, errno);
}

Status NewFile::link_to(const std::string& name) {
  const std::string here = fmt::format("/proc/self/fd/{}", file_.get());
  return ::linkat(AT_FDCWD, here.c_str(), folder_.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0
             ? Status()
             : fail_errno(path_, errno);
}

Status NewFile::give_name(const std::string& name, IfThere if_there) {
  if (temporary_.empty()) {
    if (if_there == IfThere::kFail) {
      return link_to(name);
    }
    std::string other = std::string(kTemporary) + random_letters(8);
    ST_TRY(link_to(other));
    temporary_ = std::move(other);
  }
  if (if_there == IfThere::kReplace) {
    return ::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name.c_str()) == 0 ? Status()
                                                                                           : fail_errno(path_, errno);
  }
  if (::renameat2(folder_.get(), temporary_.c_str(), folder_.get(), name.c_str(), RENAME_NOREPLACE) == 0) {
    return {};
  }
  // File servers (NFS, Lustre) lack such a rename on any kernel. They have links, which replace nothing.
  if (errno == EINVAL && ::linkat(folder_.get(), temporary_.c_str(), folder_.get(), name.c_str(), 0) == 0) {
    ::unlinkat(folder_.get(), temporary_.c_str(), 0);
    return {};
  }
  return fail_errno(path_, errno);
}

std::string NewFile::temporary_path() const { return (fs::path(path_).parent_path() / temporary_).string(); }

Status NewFile::publish(IfThere if_there) { return publish_as(name_of(path_), if_there); }

Status NewFile::publish_as(const std::string& name, IfThere if_there) {
  ST_TRY(store(file_.get(), path_));
  ST_TRY(give_name(name, if_there));
  temporary_.clear();
  (void)::fsync(folder_.get());  // stores the name too; some file systems can't
  return close_stored(std::move(file_), path_);
}

}  // namespace stalltrace
