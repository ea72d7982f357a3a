// SPDX-License-Identifier: Apache-2.0
// The stacks of other processes' threads that run, as bytes: the kernel samples them. (Of blocked ones:
// stacks/native/blocked_stack.h.)
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "stacks/native/blocked_stack.h"

namespace stalltrace::autopsy {

/// Samples of a running thread within `most_ns`, a few at most. Errors: kNoPrivilege, kNotFound, kUnsupported.
Result<std::vector<stacks::StackContent>> sample_running(pid_t tid, int64_t most_ns);

}  // namespace stalltrace::autopsy
