// SPDX-License-Identifier: Apache-2.0
// Identifies communicators of all ranks across ranks where the library has no readable id for them: the job of a
// process, and its handle of MPI_COMM_WORLD. Any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/process/procfs.h"

namespace stalltrace::capture {

/// A number that is equal on all ranks of a job, from its id and its launcher's variables; 0 where there is neither.
uint64_t job_key(std::string_view job_id, const Environment& environment);

/// MPI_COMM_WORLD's handle in MPICH (mpi.h). In OpenMPI it is the address of the object ompi_mpi_comm_world
/// (elf_symbols.h), which the linker may have copied into the program.
inline constexpr uint64_t kMpichWorld = 0x44000000;

}  // namespace stalltrace::capture
