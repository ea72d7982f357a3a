// SPDX-License-Identifier: Apache-2.0
// A process's identity in its job, from the variables that its launcher set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/process/procfs.h"
#include "model/events.h"

namespace stalltrace::capture {

struct JobIdentity {
  std::optional<int32_t> rank;
  std::optional<int32_t> local_rank;
  std::optional<int32_t> world_size;
  std::string job_id;
};

/// The variables that decide how ranks find each other, in the form of Process::settings: sorted by name, one per line,
/// at most 4 KiB. Other variables may hold secrets and are left out, as are values with a line break.
std::string job_settings(const Environment& environment);

/// torchrun (RANK, LOCAL_RANK, WORLD_SIZE, TORCHELASTIC_RUN_ID), Open MPI (OMPI_COMM_WORLD_*), MPICH and PMI (PMI_RANK,
/// PMI_SIZE, MPI_LOCALRANKID), Slurm (SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS, SLURM_JOB_ID). The first launcher that
/// gives a rank gives all numbers; a job id may come from another, since torchrun and mpirun often run under Slurm.
JobIdentity job_identity(const Environment& environment);

/// The job of a rank started by MPICH's launcher, which passes ranks no id. Its proxy on each host, an ancestor of the
/// rank, gets the launcher's address, which is the same on all hosts (hydra_pmi_proxy's --control-port), and the number
/// of the process group that it starts (--pgid). Empty where there is no such proxy.
std::string hydra_job(const Procfs& procfs, pid_t pid);

/// Start of a process in UTC; of one that has ended, now. `utc_offset_ns` is UTC minus CLOCK_MONOTONIC.
int64_t start_of_process_ns(const Procfs& procfs, pid_t pid, int64_t utc_offset_ns);

/// The recording's row of a traced process.
Process describe_process(const Procfs& procfs, pid_t pid, NodeId node, int64_t utc_offset_ns);

/// This node and the agent run that starts now, with a new id. `name_flag`: see node_name.
Node describe_node(const std::string& name_flag);

/// This node's name: the flag if given, else STALLTRACE_NODE, else the Slurm node name, else the host name.
std::string node_name(const std::string& flag);

}  // namespace stalltrace::capture
