// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/by_descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace stalltrace::store {
namespace {

constexpr std::string_view kDescriptors = "/proc/self/fd/";
constexpr const char* kName = "stalltrace-descriptor";

using OpenCall = int (*)(const char*, int, int);
OpenCall open_of_sqlite = nullptr;

/// SQLite refuses symbolic links. This path is no link of the file system but the descriptor.
int open_descriptor(const char* path, int flags, int mode) {
  const std::string_view text(path);
  const bool descriptor = text.starts_with(kDescriptors) && text.find('/', kDescriptors.size()) == text.npos;
  return open_of_sqlite(path, descriptor ? flags & ~O_NOFOLLOW : flags, mode);
}

int same_name(sqlite3_vfs* /*vfs*/, const char* name, int size, char* out) {
  if (std::strlen(name) >= static_cast<size_t>(size)) {
    return SQLITE_CANTOPEN;
  }
  std::strcpy(out, name);
  return SQLITE_OK;
}

bool register_vfs() {
  sqlite3_vfs* usual = sqlite3_vfs_find("unix");
  if (usual == nullptr) {
    return false;
  }
  static sqlite3_vfs ours = *usual;
  ours.zName = kName;
  ours.pNext = nullptr;
  ours.xFullPathname = same_name;
  open_of_sqlite = reinterpret_cast<OpenCall>(usual->xGetSystemCall(usual, "open"));
  return open_of_sqlite != nullptr &&
         usual->xSetSystemCall(usual, "open", reinterpret_cast<sqlite3_syscall_ptr>(open_descriptor)) == SQLITE_OK &&
         sqlite3_vfs_register(&ours, 0) == SQLITE_OK;
}

}  // namespace

const char* by_descriptor_vfs() {
  static const bool registered = sqlite3_initialize() == SQLITE_OK && register_vfs();
  return registered ? kName : nullptr;
}

std::string descriptor_path(int fd) { return fmt::format("{}{}", kDescriptors, fd); }

}  // namespace stalltrace::store
