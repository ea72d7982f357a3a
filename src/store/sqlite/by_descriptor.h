// SPDX-License-Identifier: Apache-2.0
// Opens SQLite files by descriptor, so that no other process can replace them. Internal to store/.
#pragma once

#include <string>

namespace stalltrace::store {

/// The name of an SQLite VFS for paths that begin with /proc/self/fd/N. SQLite's own VFS would resolve link N and open
/// the resulting path; this one opens what descriptor N refers to: a file, or the folder in /proc/self/fd/N/NAME.
const char* by_descriptor_vfs();

/// "/proc/self/fd/N"
std::string descriptor_path(int fd);

}  // namespace stalltrace::store
