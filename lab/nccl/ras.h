// SPDX-License-Identifier: Apache-2.0
// The part of NCCL's RAS (reliability, availability, serviceability) that shows on the wire: a thread "NCCL RAS" that
// sends its next neighbour a small keep-alive every second, on a connection of its own, and reads what the one before
// sends. Made by one thread, which then leaves all to its own; a connection that ends is not made again.
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
