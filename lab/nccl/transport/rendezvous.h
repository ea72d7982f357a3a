// SPDX-License-Identifier: Apache-2.0
// What a rank and the bootstrap root say to each other: the rank sends a CheckIn, the root answers with the address of
// the next rank's listener once all have checked in.
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
