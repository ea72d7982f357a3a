// SPDX-License-Identifier: Apache-2.0
// Finds NCCL's communicators in the memory of a process: NCCL marks the begin and the end of each with a magic word. A
// process can write what it likes into its memory, so that what is found is its word, as a log's line is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "stacks/memory/memory.h"

namespace stalltrace::stacks {

/// In NcclCommunicator::launched: all collectives together.
inline constexpr std::string_view kAllCollectives = "Collective";

/// A communicator of NCCL's in the memory of a rank's process.
struct NcclCommunicator {
  uint64_t address = 0;
  uint32_t bytes = 0;  // from its first to its last marked word, by which its version's layout is known
  uint64_t hash = 0;   // NCCL's own
  int32_t rank = 0;    // of the process, on this communicator
  int32_t nranks = 0;
  int32_t device = 0;  // of CUDA
  /// Collectives launched so far, by NCCL's name of the operation or kAllCollectives; empty: this version of NCCL has
  /// no such counter.
  std::vector<std::pair<std::string, uint64_t>> launched;

  bool operator==(const NcclCommunicator&) const = default;
};

/// Addresses [begin, end), multiples of the page size.
struct MemoryRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Of what is looked for (written_memory.h), and of the search in it.
struct SearchBounds {
  uint64_t most_bytes = uint64_t{8} << 30;
  int64_t most_ns = kNsPerSecond;
};

struct CommunicatorSearch {
  std::vector<NcclCommunicator> found;  // in the order of the search; at most kMostCommunicators
  bool whole = true;                    // all of the memory was searched
};

/// A process of a large job has some dozens.
inline constexpr size_t kMostCommunicators = 1024;

/// Reads each range once, in the order that is given, and nothing outside of them. What can't be read is skipped.
CommunicatorSearch find_communicators(Memory& memory, std::span<const MemoryRange> ranges, SearchBounds bounds = {});

/// The same one now; nullopt: it is not there any more.
std::optional<NcclCommunicator> read_again(Memory& memory, const NcclCommunicator& known);

}  // namespace stalltrace::stacks
