// SPDX-License-Identifier: Apache-2.0
// Separates communicators that share one name: a job that restarts at the same address and port, and two jobs with one
// address on different hosts, reuse names. Internal to job attempts.
#pragma once

#include <span>
#include <vector>

#include "analysis/timeline/attempts/seats.h"

namespace stalltrace::analysis {

/// The seats with one communicator name that are one communicator.
using Generation = std::vector<const Seat*>;

/// True if the seats with one name can't all be one communicator: two processes have one rank, or one process ended
/// before another one on its host started.
bool has_generations(const Cluster& cluster, std::span<const Seat> seats);

/// Groups seats that were alive together, with at most one process per rank; if several fit, those whose calls with
/// equal numbers were made at the same time. Clocks of different hosts may be off, so hosts are compared by how steady
/// the difference is if the times alone decide nothing. `known`: per seat's member, the generation that another
/// communicator assigned; -1: none yet.
std::vector<Generation> generations_of(const Cluster& cluster, std::span<const Seat> seats,
                                       const std::vector<int32_t>& known);

}  // namespace stalltrace::analysis
