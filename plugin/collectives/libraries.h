// SPDX-License-Identifier: Apache-2.0
// The job's NCCL and its CUDA runtime, found as a job's dynamic linker finds them. What is declared here is their
// public interface: NVIDIA/nccl, src/nccl.h.in (ncclGetUniqueId, ncclCommInitRank and the operations are the same
// from 2.7 on, and so are the values of the enumerations), and NVIDIA's CUDA Runtime API reference. Enumerations are
// ints there; tests/sources/shared_numbers_test compares the numbers with the practice cluster's headers.
#pragma once

#include <cstddef>

namespace stalltrace::collectives {

using Comm = void*;    // ncclComm_t
using Stream = void*;  // cudaStream_t
struct UniqueId {      // ncclUniqueId, of NCCL_UNIQUE_ID_BYTES; it is passed by value
  char bytes[128];
};

inline constexpr int kSuccess = 0;           // ncclSuccess, cudaSuccess
inline constexpr int kInProgress = 7;        // ncclInProgress (2.14)
inline constexpr int kFloat32 = 7;           // ncclFloat32
inline constexpr int kSum = 0;               // ncclSum
inline constexpr int kNotReady = 600;        // cudaErrorNotReady
inline constexpr int kToDevice = 1;          // cudaMemcpyHostToDevice
inline constexpr int kToHost = 2;            // cudaMemcpyDeviceToHost
inline constexpr unsigned kNonBlocking = 1;  // cudaStreamNonBlocking

struct Nccl {
  int (*get_version)(int*);
  int (*get_unique_id)(UniqueId*);
  int (*comm_init_rank)(Comm*, int ranks, UniqueId, int rank);
  int (*comm_get_async_error)(Comm, int*);
  const char* (*get_error_string)(int);
  const char* (*get_last_error)(Comm);  // from 2.13 on; null without
  int (*all_reduce)(const void*, void*, size_t, int type, int op, Comm, Stream);
  int (*all_gather)(const void*, void*, size_t, int type, Comm, Stream);
  int (*reduce_scatter)(const void*, void*, size_t, int type, int op, Comm, Stream);
  int (*broadcast)(const void*, void*, size_t, int type, int root, Comm, Stream);
  int (*reduce)(const void*, void*, size_t, int type, int op, int root, Comm, Stream);
  int (*send)(const void*, size_t, int type, int peer, Comm, Stream);
  int (*recv)(void*, size_t, int type, int peer, Comm, Stream);
  int (*group_start)();
  int (*group_end)();
};

struct Cuda {
  int (*get_device_count)(int*);
  int (*set_device)(int);
  int (*malloc)(void**, size_t);
  int (*memset)(void*, int, size_t);
  int (*memcpy)(void*, const void*, size_t, int kind);
  int (*stream_create)(Stream*, unsigned flags);
  int (*stream_query)(Stream);
  int (*device_synchronize)();
  const char* (*get_error_string)(int);
};

/// For a line of the parent; the newest one counts.
struct Failure {
  char text[1500];
  /// As printf; returns false.
  bool set(const char* format, ...) __attribute__((format(printf, 2, 3)));
};

struct Libraries {
  Nccl nccl;
  Cuda cuda;
  char path[512];  // of NCCL's
  int version;     // 22809 is 2.28.9

  /// `path`: NCCL's; null: libnccl.so.2, by the linker's rules. The CUDA runtime is one that is loaded already, one
  /// that the linker finds, or one beside NCCL's file, as in PyTorch's packages. False: `failure` has the reason.
  bool load(const char* path, Failure& failure);

  /// False with the library's own words, where a call failed.
  bool nccl_done(int result, const char* call, Failure& failure) const;
  bool cuda_done(int error, const char* call, Failure& failure) const;
};

}  // namespace stalltrace::collectives
