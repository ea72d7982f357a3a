// SPDX-License-Identifier: Apache-2.0
// Ends asynchronous calls by polling, like programs that do other work in the meantime.
#pragma once

#include <mpi.h>

#include <span>
#include <string_view>

namespace lab::mpi {

/// Polls with one of kPolls until all requests are done. Returns the number of MPI calls.
long poll_until_done(std::string_view call, std::span<MPI_Request> requests);

}  // namespace lab::mpi
