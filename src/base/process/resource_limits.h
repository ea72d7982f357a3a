// SPDX-License-Identifier: Apache-2.0
// Limits of this process that tracing raises, and that a job started by it must not inherit: select() can't handle
// descriptors beyond 1023, and some programs close every descriptor up to the limit.
#pragma once

#include <cstdint>

namespace stalltrace {

/// Raises the soft limit of open files to the hard one, and saves the original limits of files and of locked memory
/// (libbpf raises the latter on kernels before 5.11). Later calls do nothing. Any thread.
void raise_limits();

/// How many files may be open now.
uint64_t descriptor_limit();

/// Restores the saved limits. Async-signal-safe: for a child between fork and exec.
void restore_limits() noexcept;

}  // namespace stalltrace
