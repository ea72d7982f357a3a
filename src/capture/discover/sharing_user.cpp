// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/sharing_user.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/handle.h"
#include "wire/user_share.h"

namespace stalltrace::capture {
namespace {

constexpr int kNamespaces = 4;  // below one another that are looked at, as by the kernel side

ino_t inode_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

std::optional<uint32_t> sharing_user(const Procfs& procfs, pid_t pid) {
  const auto user = procfs.user(pid);
  const UniqueFd ours(::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC));
  UniqueFd name_space(::open(procfs.path(pid, "ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  if (!user || !ours || !name_space || inode_of(name_space.get()) == inode_of(ours.get())) {
    return user;
  }
  for (int level = 0; level < kNamespaces; ++level) {
    UniqueFd parent(::ioctl(name_space.get(), NS_GET_PARENT));
    if (!parent) {
      return user;
    }
    if (inode_of(parent.get()) == inode_of(ours.get())) {
      uid_t owner = 0;
      return ::ioctl(name_space.get(), NS_GET_OWNER_UID, &owner) == 0 && owner != 0 ? owner : *user;
    }
    name_space = std::move(parent);
  }
  return ST_OTHER_USERS;
}

}  // namespace stalltrace::capture
