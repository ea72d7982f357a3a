// SPDX-License-Identifier: Apache-2.0
// For whom a process counts where users have shares: the same as the kernel side's user_of() (bpf/user_share.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "base/process/procfs.h"

namespace stalltrace::capture {

/// Its user. In a user namespace that a user made, where that user may have numbers by the thousand, who made the
/// outermost one; root's own containers count by their users. None when it is gone.
std::optional<uint32_t> sharing_user(const Procfs& procfs, pid_t pid);

}  // namespace stalltrace::capture
