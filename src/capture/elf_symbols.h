// SPDX-License-Identifier: Apache-2.0
// Which functions of the call table an ELF file defines, and where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "capture/call_table.h"

namespace stalltrace::capture {

/// A probe point: a row of the call table at a file offset (what uprobes are addressed by).
struct ProbePoint {
  uint64_t offset = 0;
  uint32_t row = 0;
};

struct FileSymbols {
  std::vector<ProbePoint> points;  // each offset once: weak aliases of one function make one point
  bool has_collectives = false;    // defines rows of CallFamily::kCollectiveLibrary
};

/// Looks the table's symbols up in the dynamic symbol table, and in the full one, where a library linked
/// statically into another leaves its names. A file without any gives empty points. Errors: not readable, not ELF.
Result<FileSymbols> find_probe_points(const std::string& path);

}  // namespace stalltrace::capture
