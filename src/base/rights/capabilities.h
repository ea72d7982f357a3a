// SPDX-License-Identifier: Apache-2.0
// The capabilities of this process (capabilities(7)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace stalltrace {

/// A set of capabilities: bit N is capability N, as in /proc/PID/status.
using Capabilities = uint64_t;

constexpr Capabilities capability_bit(int number) { return Capabilities{1} << number; }

/// The effective ones of the calling thread; 0 if they can't be read.
Capabilities held_capabilities();

/// Gives up all capabilities of the calling thread but `kept`, for good, also for programs that it executes. Threads
/// that it starts later have them no more; others are not changed. False if the kernel refuses.
bool keep_capabilities(Capabilities kept);

/// The number of this process's threads that hold, or may take back, a capability that is not one of `kept`: those that
/// were started before keep_capabilities(). 0 where /proc can't be read.
size_t threads_with_more_than(Capabilities kept);

/// "CAP_BPF, CAP_PERFMON"; a number beyond linux/capability.h is printed as such.
std::string capability_names(Capabilities set);

}  // namespace stalltrace
