// SPDX-License-Identifier: Apache-2.0
// The messages between a rank and the bootstrap root: the rank sends a CheckIn; once all have checked in, the root
// answers with the address of the next rank's listener.
#pragma once

#include <cstdint>

#include "address.h"

namespace lab::nccl {

struct CheckIn {
  uint64_t magic;
  int32_t rank;
  int32_t nranks;
  SocketAddress listener;
};

}  // namespace lab::nccl
