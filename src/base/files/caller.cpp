// SPDX-License-Identifier: Apache-2.0
#include "base/files/caller.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>

#include "base/file.h"
#include "base/rights/uid_map.h"
#include "base/text.h"

namespace stalltrace {
namespace {

std::optional<uint32_t> id_of_variable(const char* name) {
  const char* text = std::getenv(name);
  const auto id = parse_integer(text == nullptr ? "" : text);
  return id && *id >= 0 && *id < std::numeric_limits<uint32_t>::max() ? std::optional(static_cast<uint32_t>(*id))
                                                                      : std::nullopt;
}

/// Whether this user namespace maps the id (user_namespaces(7), uid_map).
bool has_users_with(uid_t uid) {
  const auto map = read_file("/proc/self/uid_map", 65536);
  if (!map) {
    return true;
  }
  return std::ranges::any_of(parse_uid_map(*map), [&](const UidRange& range) {
    return uid >= range.inside && uid < range.inside + range.count;
  });
}

bool stands_for_outside(uid_t uid) {
  const auto overflow = parse_integer(trim(read_file("/proc/sys/kernel/overflowuid", 64).value_or("")));
  return overflow && *overflow == uid && !has_users_with(uid);
}

/// The users who could replace our own program file.
const std::set<uid_t>& owners_of_program() {
  static const std::set<uid_t> owners = [] {
    std::set<uid_t> found;
    std::error_code error;
    std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
    struct stat info {};
    while (!error && ::stat(path.c_str(), &info) == 0) {
      found.insert(info.st_uid);
      if (path == path.root_path()) {
        break;
      }
      path = path.parent_path();
    }
    return found;
  }();
  return owners;
}

}  // namespace

std::optional<Caller> sudo_caller() {
  const auto uid = id_of_variable("SUDO_UID");
  const auto gid = id_of_variable("SUDO_GID");
  if (::geteuid() != 0 || !uid || !gid || *uid == 0) {
    return std::nullopt;
  }
  return Caller{*uid, *gid};
}

bool is_trusted_owner(uid_t uid) {
  const auto caller = sudo_caller();
  return uid == 0 || uid == ::geteuid() || (caller && uid == caller->uid) || owners_of_program().contains(uid) ||
         stands_for_outside(uid);
}

bool hand_to_caller(int fd) {
  const auto caller = sudo_caller();
  if (!caller) {
    return true;
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0 || info.st_uid != ::geteuid() || (S_ISREG(info.st_mode) && info.st_nlink > 1)) {
    return false;
  }
  return ::fchown(fd, caller->uid, caller->gid) == 0;
}

}  // namespace stalltrace
