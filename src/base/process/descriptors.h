// SPDX-License-Identifier: Apache-2.0
// Closes all descriptors of a process, in a child between fork and exec: these functions are async-signal-safe. They do
// not depend on close_range: Linux before 5.9 lacks it, before 5.11 its CLOSE_RANGE_CLOEXEC, and a container's seccomp
// profile may refuse it.
#pragma once

namespace stalltrace {

/// Makes the next exec close every descriptor from `first` up. No other thread of the process may open one in the
/// meantime.
void close_from_on_exec(int first);

/// Closes every descriptor but `kept`.
void close_all_but(int kept);

}  // namespace stalltrace
