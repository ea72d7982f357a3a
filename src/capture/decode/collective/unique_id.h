// SPDX-License-Identifier: Apache-2.0
// The two hashes of an ncclUniqueId by which a communicator is known across ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/events.h"
#include "wire/collective.h"

namespace stalltrace::capture {

/// Our own: the id's sixteen little-endian words folded with splitmix64.
CommHash comm_id_hash(std::span<const std::byte, ST_UNIQUE_ID_BYTES> id);

/// NCCL's own, printed in its logs as `commId 0x...`, in RAS output and given to profiler plugins: getHash of
/// src/include/utils.h and commHash in src/init.cc, the same from NCCL 2.23 to 2.30.
uint64_t nccl_comm_hash(std::span<const std::byte, ST_UNIQUE_ID_BYTES> id);

/// The hash of a communicator split off another. The same on all its members, since a split is collective:
/// `ordinal` counts the splits of the parent on this rank from 0. 0 when the parent is unknown.
CommHash split_comm_hash(CommHash parent, uint64_t ordinal, int color);

}  // namespace stalltrace::capture
