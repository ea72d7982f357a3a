// SPDX-License-Identifier: Apache-2.0
// What makes the communicators of all ranks known across ranks, where the library has no id for them that could be
// read: which job a process belongs to, and where its MPI keeps MPI_COMM_WORLD. Any thread.
#pragma once

#include "base/process/procfs.h"

namespace stalltrace::capture {

/// The same number on all ranks of a job, from its id and what its launcher put into the environment; 0 where there is
/// neither.
uint64_t job_key(std::string_view job_id, const Environment& environment);

/// MPI_COMM_WORLD as the process passes it, 0 where it maps no MPI. In OpenMPI that is the address of the object
/// ompi_mpi_comm_world, which the linker may have copied into the program; in MPICH the number 0x44000000 (mpi.h).
uint64_t mpi_world_handle(const Procfs& procfs, pid_t pid);

/// Where an object that the file defines lies in a process that has mapped the file's code at `code_start`; 0 where it
/// defines none of that name.
uint64_t address_of_object(const std::string& path, std::string_view name, uint64_t code_start);

}  // namespace stalltrace::capture
