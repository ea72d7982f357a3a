// SPDX-License-Identifier: Apache-2.0
// NCCL's communicators of a live process. Nothing in the process changes: only memory that it wrote to is read.
#pragma once

#include "autopsy/snapshot.h"
#include "base/process/procfs.h"

namespace stalltrace::autopsy {

/// Fills in RankState::communicators, and why there may be more. `before`: the same process in an earlier snapshot,
/// whose communicators are read again; null: its memory is searched, if it has a library with NCCL inside.
void read_communicators(const Procfs& procfs, const RankState* before, RankState& rank);

}  // namespace stalltrace::autopsy
