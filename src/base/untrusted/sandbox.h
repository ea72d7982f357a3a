// SPDX-License-Identifier: Apache-2.0
// What a child gives up before it touches a stranger's bytes.
#pragma once

namespace stalltrace {

/// For good: capabilities, new privileges, memory beyond some 256 MiB more, new files, and every system call but those
/// that read open files, answer and allocate. False where the kernel refuses that.
bool enter_sandbox();

}  // namespace stalltrace
