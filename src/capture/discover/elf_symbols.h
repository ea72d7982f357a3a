// SPDX-License-Identifier: Apache-2.0
// Which functions of the call table an ELF file defines, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"
#include "capture/call_table.h"
#include "capture/probe_points.h"

namespace stalltrace::capture {

/// OpenMPI's object for MPI_COMM_WORLD, and the first executable segment, whose mapping gives the object's address in a
/// process.
struct MpiWorld {
  uint64_t address = 0;  // as in the symbol table
  uint64_t segment_address = 0;
  uint64_t segment_offset = 0;  // in the file
  uint64_t segment_bytes = 0;

  /// 0: the mapping belongs to another segment.
  [[nodiscard]] uint64_t address_in(const MappedFile& mapping) const;
};

/// More points than the table has rows, for libraries that contain a function twice. A file with more is not genuine.
inline constexpr size_t kMostProbePoints = 1024;
inline constexpr size_t kMostPythonPoints = 4;

struct FileSymbols {
  std::vector<ProbePoint> points;  // each offset once: weak aliases of one function give one point
  bool has_collectives = false;    // defines rows of CallFamily::kCollectiveLibrary
  std::optional<MarkerPoint> marker;
  std::optional<MpiWorld> mpi_world;
  std::vector<PythonPoint> python;  // of an interpreter whose layout is known
  uint64_t code = 0;                // a hash of the bytes at all points and at the marker

  [[nodiscard]] bool can_be_probed() const { return !points.empty() || marker || !python.empty(); }
  [[nodiscard]] bool of_interest() const { return can_be_probed() || mpi_world; }
};

/// Looks the table's symbols up in the dynamic symbol table and in the full one, which has the names of a library
/// linked statically into another. Only functions in the file's executable segments count. The file is untrusted
/// (base/elf/elf_file.h). A file without such symbols, or for another machine, gives empty points. Errors: not ELF.
Result<FileSymbols> find_probe_points(int fd);
/// The same for the file at a path. Errors: also not readable, not a regular file.
Result<FileSymbols> find_probe_points(const std::string& path);

/// True if the file still has the code that was there when its points were found.
bool has_same_code(int fd, const FileSymbols& symbols);

}  // namespace stalltrace::capture
