// SPDX-License-Identifier: Apache-2.0
#include "library_memory.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace lab::nccl {
namespace {

/// The index of its counter: the number in NCCL's ncclFunc_t.
std::optional<size_t> counter_of(Function function) {
  switch (function) {
    case Function::kBroadcast:
      return 0;
    case Function::kReduce:
      return 1;
    case Function::kAllGather:
      return 2;
    case Function::kReduceScatter:
      return 3;
    case Function::kAllReduce:
      return 4;
    case Function::kConnect:
    case Function::kSend:
    case Function::kRecv:
      break;
  }
  return std::nullopt;
}

/// LAB_NCCL_MEMORY=0: as with an NCCL whose memory has another layout, nothing is found where this one's is.
bool has_other_layout() {
  const char* text = std::getenv("LAB_NCCL_MEMORY");
  return text != nullptr && std::strcmp(text, "0") == 0;
}

static_assert(sizeof(LibraryMemory) == 1'082'968);

}  // namespace

void LibraryMemory::begin(uint64_t hash, int rank, int nranks, int device) {
  if (!has_other_layout()) {
    hash_ = hash;
    rank_ = rank;
    nranks_ = nranks;
    device_ = device;
  }
  start_magic_ = end_magic_ = kMagic;
}

void LibraryMemory::end() {
  // The compiler may drop stores to memory that is freed; others see these.
  std::atomic_ref(start_magic_).store(0);
  std::atomic_ref(end_magic_).store(0);
}

void LibraryMemory::count(Function function) {
  if (const auto counter = counter_of(function)) {
    std::atomic_ref(sequence_numbers_.at(*counter)).fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace lab::nccl
