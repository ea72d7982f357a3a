// SPDX-License-Identifier: Apache-2.0
// How ranks that share only a unique id find each other. ncclGetUniqueId starts the root, a thread that waits for all
// ranks to check in and sends each the address of its right-hand neighbour; the ranks then form a ring of control
// connections for the communicator's lifetime, over which small records are gathered.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "address.h"
#include "nccl.h"
#include "socket.h"

namespace lab::nccl {

/// The content of a unique id: 8 bytes of random magic, the root's address, zeros.
struct BootstrapHandle {
  uint64_t magic;
  SocketAddress root;
};
static_assert(sizeof(BootstrapHandle) <= NCCL_UNIQUE_ID_BYTES);

/// Starts the root thread ("NCCL BootstrapR"), which ends once all ranks have checked in, and makes its id.
ncclResult_t start_root(const Interface& interface, ncclUniqueId* id);

/// One rank's position in the control ring. Used by one thread at a time.
class Bootstrap {
 public:
  /// Checks in with the id's root; returns when all ranks have.
  static ncclResult_t from_root(const BootstrapHandle& handle, const Interface& interface, int rank, int nranks,
                                const std::atomic<bool>& abort, std::unique_ptr<Bootstrap>* result);
  /// Forms a ring of ranks whose addresses are known already: `listener` is this rank's own.
  static ncclResult_t from_listener(uint64_t magic, const Socket& listener, const SocketAddress& next, int rank,
                                    int nranks, const std::atomic<bool>& abort, std::unique_ptr<Bootstrap>* result);

  /// `all` holds nranks records of `record_bytes`; this rank's own is filled in, the others are gathered.
  ncclResult_t all_gather(void* all, size_t record_bytes);

 private:
  Bootstrap(int rank, int nranks, const std::atomic<bool>& abort) : rank_(rank), nranks_(nranks), abort_(abort) {}

  int rank_;
  int nranks_;
  const std::atomic<bool>& abort_;
  Socket next_;
  Socket previous_;
};

}  // namespace lab::nccl
