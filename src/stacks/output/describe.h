// SPDX-License-Identifier: Apache-2.0
// Texts for a thread's activity or wait. Printable, whatever the process's names contain.
#pragma once

#include <optional>
#include <string>

#include "stacks/process_stacks.h"

namespace stalltrace::stacks {

/// "running", "in read of descriptor 5, pipe:[123], whose other end pid 7 (tee) has", "waiting for the GIL".
std::string describe_wait(const ThreadStack& thread);

/// The same without descriptors, to group threads: "in futex".
std::string describe_wait_briefly(const ThreadStack& thread);

/// The activity, for use in a sentence: "reading FIFO /data/in", "waiting for data of TCP 10.0.0.1:4711 -> ...",
/// "waiting for the GIL", "running".
std::string describe_activity(const ThreadStack& thread);

/// The native call that the program made.
struct NativeCall {
  std::string caller;  // "compute_step (train)"; where all frames are in libraries, the innermost outside the system's
  std::string called;  // "usleep"; empty: the thread is in the caller's own code
  bool only_waits = false;  // a library called the system's code: describe_wait() says more than `called`
};
/// nullopt: no native frames, or none that says something of the program.
std::optional<NativeCall> native_call_of(const ThreadStack& thread);
/// "usleep, called by compute_step (train)", "compute_step (train)"; of one that only waits
/// "called by c10d::runLoop() (libtorch_cpu.so)".
std::string to_text(const NativeCall& call);
/// The thread's native call as text; empty where it has none.
std::string describe_native_call(const ThreadStack& thread);

/// "TCP 10.0.0.1:4711 -> 10.0.0.2:29500 (ESTABLISHED), peer pid 12 (python3)"
std::string describe_descriptor(const Descriptor& descriptor);

}  // namespace stalltrace::stacks
