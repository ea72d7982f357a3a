// SPDX-License-Identifier: Apache-2.0
// Hands rank 0's unique id to all ranks over TCP at MASTER_ADDR:MASTER_PORT, as torchrun's store does. Waits at most a
// minute for the others.
#pragma once

#include <nccl.h>

#include <expected>
#include <string>

#include "options.h"

namespace lab::workload {

/// On rank 0 `*id` is what the others get; on the others it is filled in.
std::expected<void, std::string> share_id(const RankEnvironment& environment, ncclUniqueId* id);

}  // namespace lab::workload
