// SPDX-License-Identifier: Apache-2.0
#include "stages.h"

#include "bugs.h"
#include "pattern.h"
#include "script.h"

namespace lab::workload {
namespace {

constexpr size_t kActivations = 16'384;
constexpr size_t kBorder = 12'582'912;  // more than the sockets between two ranks hold

}  // namespace

Stages::Stages(Job& job)
    : job_(job),
      type_(job.options().dtype),
      send_(kBorder * type_bytes(type_)),
      receive_(kBorder * type_bytes(type_)) {}

void Stages::send(int peer, size_t count, cudaStream_t stream) {
  CHECK_CALL(ncclSend(send_.get(), count, type_, peer, job_.comm(), stream));
}

void Stages::receive(int peer, size_t count, cudaStream_t stream) {
  CHECK_CALL(ncclRecv(receive_.get(), count, type_, peer, job_.comm(), stream));
}

void Stages::wait(cudaStream_t stream) {
  CHECK_CALL(cudaStreamSynchronize(stream));
  job_.check_alive();
}

void Stages::pipeline(cudaStream_t stream) {
  stay_away(job_, stream, "stage");
  const int rank = job_.rank();
  const bool first = rank == 0;
  const bool last = rank == job_.nranks() - 1;
  if (!first) {
    receive(rank - 1, kActivations, stream);
  }
  if (!last) {
    send(rank + 1, kActivations, stream);
    receive(rank + 1, kActivations, stream);
  }
  if (!first) {
    send(rank - 1, kActivations, stream);
  }
  wait(stream);
}

void Stages::exchange(cudaStream_t stream) {
  const int neighbour = job_.rank() ^ 1;
  if (neighbour >= job_.nranks()) {
    return;
  }
  if (job_.rank() < neighbour || bug("exchange") == "send") {
    send(neighbour, kBorder, stream);
    receive(neighbour, kBorder, stream);
  } else {
    receive(neighbour, kBorder, stream);
    send(neighbour, kBorder, stream);
  }
  wait(stream);
}

}  // namespace lab::workload
