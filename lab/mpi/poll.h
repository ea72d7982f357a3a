// SPDX-License-Identifier: Apache-2.0
// Ends asynchronous calls as programs do that have something else to do in the meantime: by asking again and again.
#pragma once

#include <mpi.h>

#include <span>
#include <string_view>

namespace lab::mpi {

/// Polls one of kPolls until all requests are done. Returns how often it called MPI.
long poll_until_done(std::string_view call, std::span<MPI_Request> requests);

}  // namespace lab::mpi
