// SPDX-License-Identifier: Apache-2.0
#include "poll.h"

#include <vector>

namespace lab::mpi {
namespace {

/// Polls each one, even if it was done before.
bool each_done(std::span<MPI_Request> requests) {
  bool all = true;
  for (MPI_Request& request : requests) {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    all = all && done != 0;
  }
  return all;
}

bool all_done(std::span<MPI_Request> requests) {
  int done = 0;
  MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
  return done != 0;
}

/// Once all are done, the call finds no active request.
bool none_left_of_any(std::span<MPI_Request> requests) {
  int index = 0;
  int done = 0;
  MPI_Testany(static_cast<int>(requests.size()), requests.data(), &index, &done, MPI_STATUS_IGNORE);
  return done != 0 && index == MPI_UNDEFINED;
}

bool none_left_of_some(std::span<MPI_Request> requests) {
  std::vector<int> indices(requests.size());
  int count = 0;
  MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &count, indices.data(), MPI_STATUSES_IGNORE);
  return count == MPI_UNDEFINED;
}

}  // namespace

long poll_until_done(std::string_view call, std::span<MPI_Request> requests) {
  const auto poll = call == "test"      ? each_done
                    : call == "testall" ? all_done
                    : call == "testany" ? none_left_of_any
                                        : none_left_of_some;
  const long calls = call == "test" ? static_cast<long>(requests.size()) : 1;
  long polls = calls;
  while (!poll(requests)) {
    polls += calls;
  }
  return polls;
}

}  // namespace lab::mpi
