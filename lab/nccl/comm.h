// SPDX-License-Identifier: Apache-2.0
// A communicator: one rank's membership in a group of ranks. It owns the control ring (bootstrap) and the proxy thread
// with its data connections. Made by init_rank or split, freed by destroy_comm; users hold the pointer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "library_memory.h"
#include "nccl.h"
#include "profiler/profiler.h"
#include "ras.h"
#include "transport/bootstrap.h"
#include "transport/proxy.h"

/// The opaque type of the API. Fields are set before the pointer is given to the user and don't change afterwards,
/// except for the atomics and `split_count`, which belongs to the thread that splits.
struct ncclComm {
  lab::nccl::LibraryMemory memory;
  int rank = 0;
  int nranks = 0;
  int device = 0;
  int64_t bus_id = 0;
  std::string name;   // from the user; may be empty
  uint64_t hash = 0;  // NCCL's own: of the unique id, or of a split's parent, number and colour
  int split_count = 0;
  lab::nccl::Interface interface;
  std::atomic<bool> abort = false;
  std::atomic<bool> finalized = false;
  std::atomic<uint64_t> operation_count = 0;
  std::unique_ptr<lab::nccl::Bootstrap> bootstrap;
  std::unique_ptr<lab::nccl::Profiler> profiler;  // null without a plugin
  std::unique_ptr<lab::nccl::Proxy> proxy;
  std::unique_ptr<lab::nccl::Ras> ras;  // only for a communicator with other ranks that is not a split
};

namespace lab::nccl {

/// `caller` is the public function's name, for the log; `name` is the communicator's, and may be empty.
ncclResult_t init_rank(const char* caller, int nranks, const ncclUniqueId& id, int rank, int device,
                       const std::string& name, ncclComm_t* result);
/// Collective over the parent's ranks. With NCCL_SPLIT_NOCOLOR a rank takes part and gets a null communicator.
ncclResult_t split(ncclComm_t parent, int color, int key, const std::string& name, ncclComm_t* result);

/// ncclSuccess for a usable communicator; else the error, logged under `caller`.
ncclResult_t check_comm(ncclComm_t comm, const char* caller);

/// Waits until everything launched is done; stops at an error.
void drain(ncclComm_t comm);
/// Drains unless `abort`, then ends the threads, closes the sockets and frees the communicator.
void destroy_comm(ncclComm_t comm, bool abort);

}  // namespace lab::nccl
