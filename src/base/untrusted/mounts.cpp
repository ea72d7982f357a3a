// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/clock.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/text.h"

namespace stalltrace {
namespace {

constexpr int64_t kTableNs = 2 * kNsPerSecond;  // how long a table is reused
constexpr size_t kMostTableBytes = 4U << 20;
constexpr size_t kMostDevices = 65536;

/// File system types whose files lie on this host. An unlisted type counts as remote, which at worst costs a little
/// time.
constexpr std::array<std::string_view, 25> kLocal{
    "ext2",     "ext3",  "ext4",   "xfs",      "btrfs",  "tmpfs",    "ramfs",    "rootfs", "devtmpfs",
    "squashfs", "erofs", "f2fs",   "zfs",      "jfs",    "bcachefs", "vfat",     "exfat",  "ntfs3",
    "iso9660",  "udf",   "cramfs", "reiserfs", "nilfs2", "virtiofs", "hugetlbfs"};
constexpr std::string_view kOverlay = "overlay";

bool is_local_type(std::string_view type) { return std::ranges::find(kLocal, type) != kLocal.end(); }

/// mountinfo writes blanks, tabs, newlines and backslashes as \ooo.
std::string unescape(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, value, 8).ptr == text.data() + i + 4) {
      result += static_cast<char>(value);
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

template <typename Visit>
void each_mount(const std::string& path, const Visit& visit) {
  const std::string table = read_file(path, kMostTableBytes).value_or("");
  MountLine line;
  for (const std::string_view text : split(table, '\n')) {
    if (parse_mount_line(text, line)) {
      visit(line);
    }
  }
}

}  // namespace

bool parse_mount_line(std::string_view line, MountLine& into) {
  // Format: id parent major:minor root point options [optional fields] - type source options
  const size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) {
    return false;
  }
  const auto fields = split(line.substr(0, dash), ' ');
  const auto behind = split(line.substr(dash + 3), ' ');
  constexpr size_t kDevice = 2;
  constexpr size_t kPoint = 4;
  if (fields.size() <= kPoint || behind.empty()) {
    return false;
  }
  const auto numbers = split(fields[kDevice], ':');
  const auto major = numbers.size() == 2 ? parse_integer(numbers[0]) : Result<int64_t>(-1);
  const auto minor = numbers.size() == 2 ? parse_integer(numbers[1]) : Result<int64_t>(-1);
  if (!major || !minor || *major < 0 || *minor < 0) {
    return false;
  }
  into = {.major = static_cast<uint32_t>(*major),
          .minor = static_cast<uint32_t>(*minor),
          .point = unescape(fields[kPoint]),
          .type = std::string(behind[0])};
  return true;
}

void Mounts::read_own(int64_t now_ns) {
  read_ns_ = now_ns;
  points_.clear();
  each_mount(procfs_.path(::getpid(), "mountinfo"), [&](const MountLine& line) {
    const bool local = is_local_type(line.type) || line.type == kOverlay;
    by_device_[{line.major, line.minor}] = {.type = line.type, .local = local, .by_host = true};
    points_[line.point] = line.type;
  });
  // No table lists the kernel's internal mount of anonymous memory (memfd_create).
  const UniqueFd memory(::memfd_create("stalltrace", MFD_CLOEXEC));
  if (struct stat info{}; memory && ::fstat(memory.get(), &info) == 0) {
    by_device_[{major(info.st_dev), minor(info.st_dev)}] = {.type = "tmpfs", .local = true, .by_host = true};
  }
}

void Mounts::refresh() {
  const int64_t now_ns = monotonic_now_ns();
  if (read_ns_ == 0 || now_ns - read_ns_ >= kTableNs || by_device_.size() > kMostDevices) {
    by_device_.clear();
    read_own(now_ns);
  }
}

bool Mounts::has_our_user_namespace(pid_t pid) const {
  struct stat ours {};
  struct stat its {};
  return ::stat(procfs_.path(::getpid(), "ns/user").c_str(), &ours) == 0 &&
         ::stat(procfs_.path(pid, "ns/user").c_str(), &its) == 0 && ours.st_ino == its.st_ino;
}

const MountedOn& Mounts::of_device(pid_t pid, uint32_t major, uint32_t minor) {
  refresh();
  const Device wanted{major, minor};
  if (const auto known = by_device_.find(wanted); known != by_device_.end()) {
    return known->second;
  }
  read_own(monotonic_now_ns());  // it may just have been mounted
  const bool by_host = has_our_user_namespace(pid);
  each_mount(procfs_.path(pid, "mountinfo"), [&](const MountLine& line) {
    const bool local = is_local_type(line.type) || (by_host && line.type == kOverlay);
    by_device_.try_emplace({line.major, line.minor}, MountedOn{.type = line.type, .local = local, .by_host = by_host});
  });
  return by_device_[wanted];
}

bool Mounts::is_local_path(const std::string& path) {
  refresh();
  constexpr int kMostLinks = 40;
  int links = 0;
  std::string open = path;  // the part still to walk
  std::string walked;
  while (!open.empty()) {
    const size_t begin = open.find_first_not_of('/');
    if (begin == std::string::npos) {
      break;
    }
    const size_t end = std::min(open.find('/', begin), open.size());
    const std::string name = open.substr(begin, end - begin);
    open.erase(0, end);
    if (name == "." || name == "..") {
      walked = name == "." ? walked : walked.substr(0, walked.rfind('/') == std::string::npos ? 0 : walked.rfind('/'));
      continue;
    }
    const std::string here = walked + "/" + name;
    if (const auto mount = points_.find(here);
        mount != points_.end() && !is_local_type(mount->second) && mount->second != kOverlay) {
      return false;
    }
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlink(here.c_str(), target.data(), target.size());
    if (length <= 0) {
      walked = here;
      continue;
    }
    if (++links > kMostLinks) {
      return false;
    }
    open = std::string(target.data(), static_cast<size_t>(length)) + open;
    walked = open.front() == '/' ? "" : walked;
  }
  return true;
}

}  // namespace stalltrace
