// SPDX-License-Identifier: Apache-2.0
// NCCL's warnings that a message is longer than its receiver expects: ranks are in calls of different sizes.
#pragma once

#include <optional>

#include "base/result.h"
#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// mismatched_collective by the first such warning in the logs; none without one. NCCL's socket transport prints it at
/// the receiver (net_socket.cc, NCCL 2.28: "message truncated : receiving N bytes instead of N"), its InfiniBand
/// transport at the sender (net_ib.cc: "collective mismatch error, local size N remote size N").
Result<std::optional<Finding>> judge_message_sizes(EventSource& source);

}  // namespace stalltrace::analysis
