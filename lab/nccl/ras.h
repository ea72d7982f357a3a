// SPDX-License-Identifier: Apache-2.0
// The part of NCCL's RAS (reliability, availability, serviceability) that is visible on the network: a thread "NCCL
// RAS" sends its next neighbour a small keep-alive every second on a connection of its own, and reads those of its
// previous neighbour. One thread makes the object, whose own thread then does everything; a lost connection is not
// restored.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "nccl.h"
#include "transport/address.h"
#include "transport/bootstrap.h"
#include "transport/socket.h"

namespace lab::nccl {

class Ras {
 public:
  /// Collective: connects the ring of all ranks over the control ring.
  static ncclResult_t start(const Interface& interface, Bootstrap& bootstrap, int rank, int nranks,
                            const std::atomic<bool>& abort, std::unique_ptr<Ras>* result);
  ~Ras();
  Ras(const Ras&) = delete;
  Ras& operator=(const Ras&) = delete;

 private:
  Ras() = default;
  void run() const;

  Socket next_;
  Socket previous_;
  Socket stop_;  // an eventfd
  std::jthread thread_;
};

}  // namespace lab::nccl
