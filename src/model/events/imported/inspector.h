// SPDX-License-Identifier: Apache-2.0
// Calls that NCCL's Inspector measured, as rows of collective on a node whose agent_version is kInspectorFormat: with a
// duration, and mostly without the time at which they began.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/hash.h"
#include "model/events/ids.h"
#include "model/operation.h"

namespace stalltrace {

/// Node::agent_version of import/nccl_inspector.
inline constexpr std::string_view kInspectorFormat = "nccl_inspector";

/// A key in Node::missing_evidence: calls have a duration, and it is not known when they began.
inline constexpr std::string_view kLacksBegins = "call_begins";

/// comm_id_hash of the calls of one operation on the communicator with NCCL's hash `comm`: their numbers (seq) count
/// this operation alone. Communicator::nccl_comm_hash has `comm`.
constexpr CommHash inspector_sequence(CommHash comm, Operation op) {
  return splitmix64_fold(splitmix64_fold(kSplitmixSeed, comm), static_cast<uint64_t>(op) + 1);
}

}  // namespace stalltrace
