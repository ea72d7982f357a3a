// SPDX-License-Identifier: Apache-2.0
// The stacks of other processes' threads, as bytes: of a blocked one from its memory, of a running one as the kernel
// samples it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "autopsy/native/stack_scan.h"
#include "base/process/procfs.h"
#include "base/result.h"
#include "stacks/memory/memory.h"

namespace stalltrace::autopsy {

/// The stack of a thread that is blocked or stopped; nullopt if it runs, or can't be read.
std::optional<StackContent> blocked_stack(const Procfs& procfs, stacks::Memory& memory, pid_t pid, pid_t tid);

/// Samples of a running thread within `most_ns`, a few at most. Errors: kNoPrivilege, kNotFound, kUnsupported.
Result<std::vector<StackContent>> sample_running(pid_t tid, int64_t most_ns);

/// The stack pointer and the code address that end a line of /proc/PID/task/TID/syscall; nullopt for "running".
struct UserRegisters {
  uint64_t sp = 0;
  uint64_t ip = 0;
};
std::optional<UserRegisters> parse_registers(std::string_view syscall_line);

}  // namespace stalltrace::autopsy
