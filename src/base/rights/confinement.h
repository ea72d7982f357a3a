// SPDX-License-Identifier: Apache-2.0
// What a process gives up before it reads files that any user may have made: a fault in a parser then can't be used to
// run programs, to reach the network or other processes, or to change other files.
#pragma once

#include <string>
#include <vector>

namespace stalltrace {

struct Confinement {
  std::vector<std::string> files;    // existing files that may be written; those that do not exist are left out
  std::vector<std::string> folders;  // in which files may be made, written, renamed and removed
  bool subfolders = false;           // in these, folders too may be made, and removed when they are empty
  bool connects = false;             // sockets of IPv4 and IPv6 may be made and connected
};

/// What the kernel took.
struct Confined {
  /// seccomp: no new programs or processes, no new sockets (a server still accepts what arrives), no tracing, no
  /// mounts, no BPF, no signals to others; no change of a file's size, mode, owner or attributes by its path. By a
  /// descriptor mode and owner can be set, as before: also of a file that was opened for reading only.
  bool system_calls = false;
  bool files = false;  // Landlock (Linux 5.13): nothing but `Confinement` can be written
  /// What the kernel has and did not take, with the error: "seccomp: Operation not permitted". Empty: there is nothing
  /// of that kind.
  std::string refused;
};

/// For the rest of this process's life. Reading stays possible. To be called before the first thread is started. What
/// the kernel does not have is left out, and so is Landlock where a folder can't be opened. Does nothing in a build
/// with sanitizers, which need what it takes away.
Confined confine(const Confinement& allowed);

/// What confine() would get, without giving anything up.
Confined possible_confinement();

}  // namespace stalltrace
