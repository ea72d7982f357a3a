// SPDX-License-Identifier: Apache-2.0
// The two hashes of an ncclUniqueId that identify a communicator across ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/events.h"
#include "wire/collective.h"

namespace stalltrace::capture {

/// Our own hash: the id's sixteen little-endian words folded with splitmix64.
CommHash comm_id_hash(std::span<const std::byte, ST_UNIQUE_ID_BYTES> id);

/// NCCL's own hash, as printed in its logs (`commId 0x...`) and RAS output and given to profiler plugins: getHash of
/// src/include/utils.h, commHash in src/init.cc, unchanged from NCCL 2.23 to 2.30.
uint64_t nccl_comm_hash(std::span<const std::byte, ST_UNIQUE_ID_BYTES> id);

/// The hash of a communicator split off another. Equal on all its members, since a split is collective: `ordinal`
/// counts the parent's splits on this rank from 0. 0 when the parent is unknown.
CommHash split_comm_hash(CommHash parent, uint64_t ordinal, int color);

}  // namespace stalltrace::capture
