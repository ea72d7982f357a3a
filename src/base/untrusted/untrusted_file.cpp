// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/untrusted_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/file.h"
#include "base/rights/uid_map.h"
#include "base/text.h"

namespace stalltrace {
namespace {

constexpr int kHandleOfAnyFile = 0x200;  // AT_HANDLE_FID of linux/fcntl.h, since Linux 6.5
constexpr int kOverlayHandle = 0xf8;     // OVL_FILEID_V1 of fs/overlayfs/overlayfs.h

int64_t ns_of(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

/// Identifies the file below an overlay: its file system's UUID, its handle type and handle. Empty where the kernel
/// doesn't report it (before 6.6), or where the overlay is a user's, which lacks the UUID.
std::string below_overlay(int fd, bool by_host) {
  constexpr size_t kMostBytes = 128;  // MAX_HANDLE_SZ
  alignas(file_handle) std::array<std::byte, sizeof(file_handle) + kMostBytes> buffer{};
  auto* handle = reinterpret_cast<file_handle*>(buffer.data());
  handle->handle_bytes = kMostBytes;
  int mount = 0;
  if (::name_to_handle_at(fd, "", handle, &mount, AT_EMPTY_PATH | kHandleOfAnyFile) != 0 ||
      handle->handle_type != kOverlayHandle) {
    return {};
  }
  // Three bytes of padding, then struct ovl_fb: version, magic, length, flags; the wanted bytes follow.
  constexpr size_t kBegin = 3 + 4;
  constexpr size_t kUuidBytes = 16;
  const std::string_view bytes(reinterpret_cast<const char*>(handle->f_handle), handle->handle_bytes);
  if (bytes.size() <= kBegin + 1 + kUuidBytes) {
    return {};
  }
  const std::string_view uuid = bytes.substr(kBegin + 1, kUuidBytes);
  if (!by_host && uuid.find_first_not_of('\0') == std::string_view::npos) {
    return {};
  }
  return std::string(bytes.substr(kBegin));
}

std::string name_of_file(int fd, const struct stat& info, const MappedFile* mapping, bool by_host) {
  struct statfs system {};
  if (::fstatfs(fd, &system) == 0 && system.f_type == OVERLAYFS_SUPER_MAGIC) {
    if (std::string below = below_overlay(fd, by_host); !below.empty()) {
      return "below an overlay " + below;
    }
    if (mapping != nullptr) {  // those kernels show the file below
      return fmt::format("device {}:{} inode {}", mapping->device_major, mapping->device_minor, mapping->inode);
    }
  }
  return fmt::format("device {}:{} inode {}", major(info.st_dev), minor(info.st_dev), info.st_ino);
}

/// The user that is root in the process's user namespace; root's own id where that can't be read.
uid_t namespace_root(const Procfs& procfs, pid_t pid) {
  const std::string map = read_file(procfs.path(pid, "uid_map"), 65536).value_or("");
  for (const UidRange& range : parse_uid_map(map)) {
    if (range.inside == 0) {
      return static_cast<uid_t>(range.outside);
    }
  }
  return 0;
}

}  // namespace

UntrustedFile::Facts UntrustedFile::facts_of(const struct stat& info) {
  return {.size = info.st_size,
          .modified_ns = ns_of(info.st_mtim),
          .changed_ns = ns_of(info.st_ctim),
          .owner = info.st_uid,
          .group = info.st_gid,
          .mode = info.st_mode};
}

UntrustedFile::UntrustedFile(UniqueFd fd, const Facts& facts, std::string file)
    : fd_(std::move(fd)),
      facts_(facts),
      identity_{.file = std::move(file),
                .size = facts.size,
                .modified_ns = facts.modified_ns,
                .changed_ns = facts.changed_ns} {}

std::expected<UntrustedFile, OpenRefusal> UntrustedFile::open_mapped(const Procfs& procfs, Mounts& mounts, pid_t pid,
                                                                     const MappedFile& file) {
  const MountedOn mount = mounts.of_device(pid, file.device_major, file.device_minor);
  if (!mount.local) {
    return std::unexpected(OpenRefusal::kRemote);
  }
  const Procfs::MappedFileHandle handle = procfs.find_mapped(pid, file);
  if (handle.moved) {
    return std::unexpected(OpenRefusal::kMoved);
  }
  // What is mapped there now may lie elsewhere; a subvolume of btrfs has a device of its own.
  const bool same_device = handle.device_major == file.device_major && handle.device_minor == file.device_minor;
  if (handle.fd && !same_device && !mounts.of_mount(pid, handle.mount_id).local) {
    return std::unexpected(OpenRefusal::kRemote);
  }
  UniqueFd fd = handle.open();
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    return std::unexpected(OpenRefusal::kGone);
  }
  std::string name = name_of_file(fd.get(), info, &file, mount.by_host);
  return UntrustedFile(std::move(fd), facts_of(info), std::move(name));
}

std::expected<UntrustedFile, OpenRefusal> UntrustedFile::open_anywhere(const Procfs& procfs, pid_t pid,
                                                                       const MappedFile& file) {
  UniqueFd fd = procfs.open_mapped(pid, file);
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    return std::unexpected(OpenRefusal::kGone);
  }
  std::string name = name_of_file(fd.get(), info, &file, false);
  return UntrustedFile(std::move(fd), facts_of(info), std::move(name));
}

std::expected<UntrustedFile, OpenRefusal> UntrustedFile::open_in_root(const Procfs& procfs, Mounts& mounts, pid_t pid,
                                                                      const std::string& folder,
                                                                      const std::string& name) {
  const auto is_local = [&](const UniqueFd& fd) {  // its file system is not asked
    struct statx facts {};
    return ::statx(fd.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &facts) == 0 &&
           (facts.stx_mask & STATX_MNT_ID) != 0 && mounts.of_mount(pid, facts.stx_mnt_id).local;
  };
  constexpr int kWithoutOpening = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd root(::open(procfs.in_root(pid, "/").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root || !is_local(root)) {
    return std::unexpected(root ? OpenRefusal::kRemote : OpenRefusal::kGone);
  }
  const UniqueFd in(
      ::openat(root.get(), folder.substr(folder.starts_with('/') ? 1 : 0).c_str(), kWithoutOpening | O_DIRECTORY));
  if (!in || !is_local(in)) {
    return std::unexpected(in ? OpenRefusal::kRemote : OpenRefusal::kGone);
  }
  Procfs::MappedFileHandle handle;
  handle.fd = UniqueFd(::openat(in.get(), name.c_str(), kWithoutOpening));
  if (!handle.fd || !is_local(handle.fd)) {
    return std::unexpected(handle.fd ? OpenRefusal::kRemote : OpenRefusal::kGone);
  }
  struct stat info {};
  if (::fstat(handle.fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {  // before it is opened: it may be a device
    return std::unexpected(OpenRefusal::kGone);
  }
  UniqueFd fd = handle.open();
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return std::unexpected(OpenRefusal::kGone);
  }
  std::string of_file = name_of_file(fd.get(), info, nullptr, false);
  return UntrustedFile(std::move(fd), facts_of(info), std::move(of_file));
}

std::string UntrustedFile::facts() const {
  return std::string(reinterpret_cast<const char*>(&facts_), sizeof facts_) + identity_.file;
}

std::optional<UntrustedFile> UntrustedFile::adopt(UniqueFd fd, std::string_view facts) {
  Facts known;
  if (!fd || facts.size() <= sizeof known) {
    return std::nullopt;
  }
  std::memcpy(&known, facts.data(), sizeof known);
  UntrustedFile file(std::move(fd), known, std::string(facts.substr(sizeof known)));
  file.remote_ = true;
  return file;
}

UniqueFd UntrustedFile::duplicate() const { return UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)); }

Result<UntrustedFile> UntrustedFile::open_path(const std::string& path) {
  ST_ASSIGN(UniqueFd fd, open_regular(path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    return fail_errno("open " + path, errno);
  }
  std::string name = name_of_file(fd.get(), info, nullptr, true);
  return UntrustedFile(std::move(fd), facts_of(info), std::move(name));
}

bool UntrustedFile::others_may_write() const {
  return (facts_.mode & S_IWOTH) != 0 ||
         ((facts_.mode & S_IWGRP) != 0 && facts_.group != facts_.owner && facts_.group != 0);
}

bool UntrustedFile::is_unchanged() const {
  const auto ns = [](const statx_timestamp& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; };
  struct statx now {};  // for a remote file: cached values, without asking its server
  return ::statx(fd_.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &now) == 0 &&
         static_cast<int64_t>(now.stx_size) == facts_.size && ns(now.stx_mtime) == facts_.modified_ns &&
         ns(now.stx_ctime) == facts_.changed_ns;
}

bool TrustedOwners::have(uid_t user) const { return any_user || std::ranges::find(users, user) != users.end(); }

std::optional<std::string> reason_for_distrust(const Procfs& procfs, pid_t pid, const UntrustedFile& file,
                                               const TrustedOwners& trusted) {
  if (trusted.any_user) {
    return std::nullopt;
  }
  if (file.others_may_write()) {  // what is in it is not its owner's alone
    return fmt::format("others than its owner, user {}, may write it", file.owner());
  }
  if (file.owner() != 0 && !trusted.have(file.owner()) && procfs.user(pid) != file.owner() &&
      namespace_root(procfs, pid) != file.owner()) {
    return fmt::format("it belongs to user {}", file.owner());
  }
  return std::nullopt;
}

}  // namespace stalltrace
