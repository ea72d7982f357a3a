// SPDX-License-Identifier: Apache-2.0
// The structs behind NetPlugin.data from NCCL's own network transports, if NCCL was built with NET_PROFILER=1 (stock
// builds are not). NetPlugin.id identifies the struct and its version.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stalltrace::nccl {

inline constexpr int64_t kNetTypeMask = 0xffff0000;
inline constexpr int64_t kNetTypeIb = 1 << 16;
inline constexpr int64_t kNetTypeSocket = 2 << 16;
inline constexpr int64_t kNetVersionMask = 0xffff;

struct NetSocketV1 {
  uint8_t type;
  struct {
    int fd;
    int operation;
    size_t length_bytes;
  } socket;
};

struct NetIbV1 {
  uint8_t type;
  struct {
    int device;
    uint64_t work_request;
    int opcode;
    int queue_pair;
    size_t length_bytes;
  } request;
};

}  // namespace stalltrace::nccl
