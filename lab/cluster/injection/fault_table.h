// SPDX-License-Identifier: Apache-2.0
// The faults the lab can inject: one row each, its code in one file under faults/. A new cause is a new row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "lab/cluster/faults/fault_row.h"

namespace stalltrace::lab {

std::span<const FaultRow> fault_rows();
/// nullptr: no such cause.
const FaultRow* find_fault_row(std::string_view cause);

/// Length of one pulse; nullopt: the fault acts all the time.
std::optional<int64_t> pulse_of(const FaultRow& row, const FaultSpec& spec);

/// Validates ranks and nodes against the size of the cluster, which parse_fault can't do. Draws the rank of
/// `rank=random`; a node is represented by its first rank.
Result<int> choose_rank(const FaultSpec& spec, int ranks, uint64_t seed, int ranks_per_node = 1);

/// Number of packets dropped so far.
Result<uint64_t> read_counter(const PacketCounter& counter);

}  // namespace stalltrace::lab
