// SPDX-License-Identifier: Apache-2.0
// SQLite on files that are reached by descriptor, so that nobody can put another file in its place.
// Internal to store/.
#pragma once

#include <string>

namespace stalltrace::store {

/// The name of an SQLite VFS for paths that begin with /proc/self/fd/N. SQLite's own would look up what the link N
/// leads to now, and open that by its path; this one opens what the descriptor N has: a file, or the folder in
/// /proc/self/fd/N/NAME.
const char* by_descriptor_vfs();

/// "/proc/self/fd/N"
std::string descriptor_path(int fd);

}  // namespace stalltrace::store
