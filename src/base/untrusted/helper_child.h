// SPDX-License-Identifier: Apache-2.0
// What a helper process does first, just after fork, whatever it is for.
#pragma once

#include <sys/types.h>

namespace stalltrace {

/// The kernel kills the caller when the thread that forked it ends. False: `parent` has ended already. A change of user
/// undoes this.
bool die_with_parent(pid_t parent);

/// Removes all memory that the caller shares with its parent: the parent's ring buffers and maps, files mapped shared.
/// What a hostile file makes of the child can then change nothing of the parent's. False where the kernel refuses.
bool unmap_shared_memory();

}  // namespace stalltrace
