// SPDX-License-Identifier: Apache-2.0
// Words for what a thread does or waits for. Printable, whatever the process is called.
#pragma once

#include <string>

#include "stacks/process_stacks.h"

namespace stalltrace::stacks {

/// "running", "in read of descriptor 5, pipe:[123], whose other end pid 7 (tee) has", "waiting for the GIL".
std::string describe_wait(const ThreadStack& thread);

/// The same without descriptors, to count threads by: "in futex".
std::string describe_wait_briefly(const ThreadStack& thread);

/// What it does, for a sentence: "reading FIFO /data/in", "waiting for data of TCP 10.0.0.1:4711 -> ...", "waiting for
/// the GIL", "running".
std::string describe_activity(const ThreadStack& thread);

/// "TCP 10.0.0.1:4711 -> 10.0.0.2:29500 (ESTABLISHED), peer pid 12 (python3)"
std::string describe_descriptor(const Descriptor& descriptor);

}  // namespace stalltrace::stacks
