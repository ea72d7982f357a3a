// SPDX-License-Identifier: Apache-2.0
// What makes the communicators of all ranks known across ranks, where the library has no id for them that could be
// read: which job a process belongs to, and what MPI_COMM_WORLD is to it. Any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/process/procfs.h"

namespace stalltrace::capture {

/// The same number on all ranks of a job, from its id and what its launcher put into the environment; 0 where there is
/// neither.
uint64_t job_key(std::string_view job_id, const Environment& environment);

/// MPI_COMM_WORLD as a process of MPICH passes it (mpi.h). In OpenMPI it is the address of the object
/// ompi_mpi_comm_world (elf_symbols.h), which the linker may have copied into the program.
inline constexpr uint64_t kMpichWorld = 0x44000000;

}  // namespace stalltrace::capture
