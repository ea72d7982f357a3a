// SPDX-License-Identifier: Apache-2.0
// Drops a child's privileges before it reads untrusted bytes.
#pragma once

#include <sys/types.h>

namespace stalltrace {

/// Drops for good: capabilities, new privileges, memory beyond about 256 MiB more, new files, and every system call
/// except those that read open files, answer and allocate. The child still dies with `parent`. False where the kernel
/// refuses.
bool enter_sandbox(pid_t parent);

/// The same for a child that reads other processes. It keeps the capabilities to look into them and to read their
/// files, and the system calls to open files for reading, and to read memory. It changes nothing: no file, no process.
bool enter_sandbox_of_process_readers();

/// What enter_sandbox() does for root where the kernel has no system call filter. Takes CAP_SETUID and CAP_SETGID.
bool become_nobody(pid_t parent);

}  // namespace stalltrace
