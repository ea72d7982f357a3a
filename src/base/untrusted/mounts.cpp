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
constexpr size_t kMostTables = 256;
/// How long an answer counts about a device that no table has: users can mount without end, and a table can have 4 MiB.
constexpr int64_t kUnknownNs = 500 * kNsPerMs;

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
  const auto id = parse_integer(fields[0]);
  const auto numbers = split(fields[kDevice], ':');
  const auto major = numbers.size() == 2 ? parse_integer(numbers[0]) : Result<int64_t>(-1);
  const auto minor = numbers.size() == 2 ? parse_integer(numbers[1]) : Result<int64_t>(-1);
  if (!id || *id < 0 || !major || !minor || *major < 0 || *minor < 0) {
    return false;
  }
  into = {.id = static_cast<uint64_t>(*id),
          .major = static_cast<uint32_t>(*major),
          .minor = static_cast<uint32_t>(*minor),
          .point = unescape(fields[kPoint]),
          .type = std::string(behind[0])};
  return true;
}

const Mounts::Table& Mounts::own_table(int64_t most_age_ns) {
  const int64_t now_ns = monotonic_now_ns();
  if (own_.read_ns != 0 && now_ns - own_.read_ns < most_age_ns) {
    return own_;
  }
  own_ = {.by_device = {}, .by_id = {}, .read_ns = now_ns};
  points_.clear();
  each_mount(procfs_.path(::getpid(), "mountinfo"), [&](const MountLine& line) {
    const bool local = is_local_type(line.type) || line.type == kOverlay;
    const MountedOn mount{.type = line.type, .local = local, .by_host = true};
    own_.by_device[{line.major, line.minor}] = mount;
    own_.by_id[line.id] = mount;
    points_[line.point] = line.type;
  });
  // No table lists the kernel's internal mount of anonymous memory (memfd_create).
  const UniqueFd memory(::memfd_create("stalltrace", MFD_CLOEXEC));
  if (struct stat info{}; memory && ::fstat(memory.get(), &info) == 0) {
    own_.by_device[{major(info.st_dev), minor(info.st_dev)}] = {.type = "tmpfs", .local = true, .by_host = true};
  }
  return own_;
}

const Mounts::Table& Mounts::table_of(pid_t pid, int64_t most_age_ns) {
  struct stat info {};
  const bool known = ::stat(procfs_.path(pid, "ns/mnt").c_str(), &info) == 0;
  const Namespace whose{
      .mounts = known ? info.st_ino : 0, .pid = known ? 0 : pid, .by_host = has_our_user_namespace(pid)};
  if (others_.size() >= kMostTables && !others_.contains(whose)) {
    others_.clear();
  }
  Table& table = others_[whose];
  const int64_t now_ns = monotonic_now_ns();
  if (table.read_ns != 0 && now_ns - table.read_ns < most_age_ns) {
    return table;
  }
  table = {.by_device = {}, .by_id = {}, .read_ns = now_ns};
  each_mount(procfs_.path(pid, "mountinfo"), [&](const MountLine& line) {
    const bool local = is_local_type(line.type) || (whose.by_host && line.type == kOverlay);
    const MountedOn mount{.type = line.type, .local = local, .by_host = whose.by_host};
    table.by_device.try_emplace({line.major, line.minor}, mount);
    table.by_id.try_emplace(line.id, mount);
  });
  return table;
}

bool Mounts::has_our_user_namespace(pid_t pid) const {
  struct stat ours {};
  struct stat its {};
  return ::stat(procfs_.path(::getpid(), "ns/user").c_str(), &ours) == 0 &&
         ::stat(procfs_.path(pid, "ns/user").c_str(), &its) == 0 && ours.st_ino == its.st_ino;
}

/// What is in no table may just have been mounted: they are read again, but not for every process that asks.
template <typename Look>
const MountedOn& Mounts::find(pid_t pid, const Look& look) {
  static const MountedOn kUnknown;
  for (const int64_t most_age_ns : {kTableNs, kUnknownNs}) {
    if (const MountedOn* mount = look(own_table(most_age_ns))) {
      return *mount;
    }
    if (const MountedOn* mount = look(table_of(pid, most_age_ns))) {
      return *mount;
    }
  }
  return kUnknown;
}

const MountedOn& Mounts::of_device(pid_t pid, uint32_t major, uint32_t minor) {
  return find(pid, [&](const Table& table) {
    const auto known = table.by_device.find({major, minor});
    return known == table.by_device.end() ? nullptr : &known->second;
  });
}

const MountedOn& Mounts::of_mount(pid_t pid, uint64_t id) {
  return find(pid, [&](const Table& table) {
    const auto known = table.by_id.find(id);
    return known == table.by_id.end() ? nullptr : &known->second;
  });
}

bool Mounts::is_local_path(const std::string& path) {
  own_table(kTableNs);
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
