// SPDX-License-Identifier: Apache-2.0
// Which functions of the call table an ELF file defines, and where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "capture/discover/call_table.h"

namespace stalltrace::capture {

/// A probe point: a row of the call table at a file offset (what uprobes are addressed by).
struct ProbePoint {
  uint64_t offset = 0;  // the function's, or that of its second instruction: all is still as the caller left it
  uint32_t row = 0;
  bool int_handles = false;  // the file's MPI handles are ints, not pointers
};

/// The profiler plugin's marker and its semaphore (plugin/wire/marker.h), as file offsets.
struct MarkerPoint {
  uint64_t function_offset = 0;
  uint64_t semaphore_offset = 0;
};

struct FileSymbols {
  std::vector<ProbePoint> points;  // each offset once: weak aliases of one function make one point
  bool has_collectives = false;    // defines rows of CallFamily::kCollectiveLibrary
  std::optional<MarkerPoint> marker;

  [[nodiscard]] bool of_interest() const { return !points.empty() || marker; }
};

/// Looks the table's symbols up in the dynamic symbol table, and in the full one, where a library linked
/// statically into another leaves its names. A file without any gives empty points. Errors: not readable, not ELF.
Result<FileSymbols> find_probe_points(const std::string& path);

}  // namespace stalltrace::capture
