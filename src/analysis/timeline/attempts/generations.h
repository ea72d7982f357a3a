// SPDX-License-Identifier: Apache-2.0
// Communicators that have one name though they are several: a job that begins again at the same address and port, and
// two jobs with one address on different hosts, give theirs the same. Internal to job attempts.
#pragma once

#include <span>
#include <vector>

#include "analysis/timeline/attempts/seats.h"

namespace stalltrace::analysis {

/// The seats of one communicator name that are one communicator.
using Generation = std::vector<const Seat*>;

/// True where the seats of one name can't all be one communicator: two processes have one rank, or one process ended
/// before another one of its host began.
bool has_generations(const Cluster& cluster, std::span<const Seat> seats);

/// Puts together what was alive together, never two processes of one rank; of several that fit, those whose calls with
/// equal numbers were made at one time. Hosts, whose clocks may be off, are compared by how steady the difference is
/// where the times decide nothing. `known`: of each seat's member, the generation that another communicator put it
/// into; -1: none yet.
std::vector<Generation> generations_of(const Cluster& cluster, std::span<const Seat> seats,
                                       const std::vector<int32_t>& known);

}  // namespace stalltrace::analysis
