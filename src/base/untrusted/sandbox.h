// SPDX-License-Identifier: Apache-2.0
// Drops a child's privileges before it reads untrusted bytes.
#pragma once

namespace stalltrace {

/// Drops for good: capabilities, new privileges, memory beyond about 256 MiB more, new files, and every system call
/// except those that read open files, answer and allocate. False where the kernel refuses.
bool enter_sandbox();

}  // namespace stalltrace
