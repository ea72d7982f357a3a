// SPDX-License-Identifier: Apache-2.0
// The exported functions that make, query and end communicators, and the group calls.
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api.h"
#include "comm.h"
#include "group.h"
#include "result.h"

using namespace lab::nccl;

namespace {

/// Prints the version line, once per process.
void announce() {
  static std::once_flag once;
  std::call_once(once, [] { log_version("NCCL version %d.%d.%d+cuda12.0", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH); });
}

template <typename T>
ncclResult_t check_pointer(const T* pointer, const char* function, const char* argument) {
  if (pointer == nullptr) {
    NCCL_WARN("%s : %s argument is NULL", function, argument);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

ncclResult_t check_config(const ncclConfig_t* config, const char* function) {
  if (config != nullptr && config->magic != NCCL_CONFIG_MAGIC) {
    NCCL_WARN("%s : ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER", function);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

std::string name_of(const ncclConfig_t* config) {
  return config == nullptr || config->commName == nullptr ? "" : config->commName;
}

/// Records a rank's initialisation; outside of a group it is done on return.
ncclResult_t begin_init(const char* function, ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank,
                        int device, const std::string& name = {}) {
  NCCL_TRY(check_pointer(comm, function, "newcomm"));
  *comm = nullptr;
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    NCCL_WARN("Invalid rank requested : %d/%d", rank, nranks);
    return ncclInvalidArgument;
  }
  announce();
  return enqueue_init(nullptr, [=] { return init_rank(function, nranks, id, rank, device, name, comm); });
}

ncclResult_t current_device(int* device) {
  return cudaGetDevice(device) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t make_id(ncclUniqueId* id) {
  Interface interface;
  NCCL_TRY(find_interface(&interface));
  info(kInit | kBootstrap, "Bootstrap: Using %s:%s", interface.name.c_str(), to_text(interface.address).c_str());
  return start_root(interface, id);
}

ncclResult_t init_all(ncclComm_t* comms, int ndev, const int* devlist) {
  NCCL_TRY(check_pointer(comms, "ncclCommInitAll", "comms"));
  int devices = 0;
  if (ndev < 1 || cudaGetDeviceCount(&devices) != cudaSuccess) {
    NCCL_WARN("Invalid device count requested : %d", ndev);
    return ncclInvalidArgument;
  }
  std::vector<bool> used(static_cast<size_t>(devices));
  for (int rank = 0; rank < ndev; ++rank) {
    const int device = devlist == nullptr ? rank : devlist[rank];
    if (device < 0 || device >= devices) {
      NCCL_WARN("Invalid device %d requested; there are %d", device, devices);
      return ncclUnhandledCudaError;
    }
    if (used[static_cast<size_t>(device)]) {
      NCCL_WARN("Device %d was requested twice", device);
      return ncclInvalidUsage;
    }
    used[static_cast<size_t>(device)] = true;
  }
  ncclUniqueId id;
  NCCL_TRY(make_id(&id));
  group_start();
  for (int rank = 0; rank < ndev; ++rank) {
    begin_init("ncclCommInitAll", &comms[rank], ndev, id, rank, devlist == nullptr ? rank : devlist[rank]);
  }
  return group_end();
}

}  // namespace

NCCL_API(ncclResult_t, ncclGetVersion, (int* version)) {
  NCCL_TRY(check_pointer(version, "ncclGetVersion", "version"));
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId)) {
  return guarded("ncclGetUniqueId", [&] {
    NCCL_TRY(check_pointer(uniqueId, "GetUniqueId", "out"));
    return make_id(uniqueId);
  });
}

NCCL_API(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank)) {
  return guarded("ncclCommInitRank", [&] {
    int device = 0;
    NCCL_TRY(current_device(&device));
    return begin_init("ncclCommInitRank", comm, nranks, commId, rank, device);
  });
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig,
         (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config)) {
  return guarded("ncclCommInitRankConfig", [&] {
    int device = 0;
    NCCL_TRY(check_config(config, "ncclCommInitRankConfig"));
    NCCL_TRY(current_device(&device));
    return begin_init("ncclCommInitRankConfig", comm, nranks, commId, rank, device, name_of(config));
  });
}

NCCL_API(ncclResult_t, ncclCommInitAll, (ncclComm_t * comm, int ndev, const int* devlist)) {
  return guarded("ncclCommInitAll", [&] { return init_all(comm, ndev, devlist); });
}

NCCL_API(ncclResult_t, ncclCommSplit,
         (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config)) {
  return guarded("ncclCommSplit", [&] {
    NCCL_TRY(check_comm(comm, "CommSplit"));
    NCCL_TRY(check_pointer(newcomm, "CommSplit", "newcomm"));
    NCCL_TRY(check_config(config, "ncclCommSplit"));
    *newcomm = nullptr;
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
      NCCL_WARN("CommSplit : invalid color %d", color);
      return ncclInvalidArgument;
    }
    const std::string name = config == nullptr ? comm->name : name_of(config);
    return enqueue_init(comm, [=] { return split(comm, color, key, name, newcomm); });
  });
}

NCCL_API(ncclResult_t, ncclCommFinalize, (ncclComm_t comm)) {
  return guarded("ncclCommFinalize", [&] {
    if (comm == nullptr) {
      return ncclSuccess;
    }
    NCCL_TRY(check_comm(comm, "CommFinalize"));
    if (comm->finalized.exchange(true)) {
      NCCL_WARN("comm %p was finalized already", static_cast<void*>(comm));
      return ncclInvalidArgument;
    }
    drain(comm);
    return comm->proxy->async_error();
  });
}

NCCL_API(ncclResult_t, ncclCommDestroy, (ncclComm_t comm)) {
  return guarded("ncclCommDestroy", [&] {
    if (comm != nullptr) {
      NCCL_TRY(check_comm(comm, "CommDestroy"));
      destroy_comm(comm, /*abort=*/false);
    }
    return ncclSuccess;
  });
}

NCCL_API(ncclResult_t, ncclCommAbort, (ncclComm_t comm)) {
  return guarded("ncclCommAbort", [&] {
    if (comm != nullptr) {
      NCCL_TRY(check_comm(comm, "CommAbort"));
      destroy_comm(comm, /*abort=*/true);
    }
    return ncclSuccess;
  });
}

NCCL_API(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count)) {
  NCCL_TRY(check_comm(comm, "CommCount"));
  NCCL_TRY(check_pointer(count, "CommCount", "count"));
  *count = comm->nranks;
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device)) {
  NCCL_TRY(check_comm(comm, "CommCuDevice"));
  NCCL_TRY(check_pointer(device, "CommCuDevice", "devid"));
  *device = comm->device;
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank)) {
  NCCL_TRY(check_comm(comm, "CommUserRank"));
  NCCL_TRY(check_pointer(rank, "CommUserRank", "rank"));
  *rank = comm->rank;
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError)) {
  NCCL_TRY(check_comm(comm, "ncclGetAsyncError"));
  NCCL_TRY(check_pointer(asyncError, "ncclGetAsyncError", "asyncError"));
  *asyncError = comm->proxy->async_error();
  return ncclSuccess;
}

NCCL_API(const char*, ncclGetErrorString, (ncclResult_t result)) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclNumResults:
      break;
  }
  return "unknown result code";
}

/// The text is valid until the same thread's next call.
NCCL_API(const char*, ncclGetLastError, (ncclComm_t)) {
  thread_local std::string text;
  text = last_warning();
  return text.c_str();
}

NCCL_API(ncclResult_t, ncclGroupStart, (void)) { return group_start(); }

NCCL_API(ncclResult_t, ncclGroupEnd, (void)) {
  return guarded("ncclGroupEnd", [] { return group_end(); });
}
