// SPDX-License-Identifier: Apache-2.0
// Who a process is in its job, from the variables its launcher set.
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

/// The variables that decide how ranks find each other, as Process::settings holds them: sorted by name, one a line,
/// at most 4 KiB. Others may hold secrets and are left out, as are values with a line break.
std::string job_settings(const Environment& environment);

/// torchrun (RANK, LOCAL_RANK, WORLD_SIZE, TORCHELASTIC_RUN_ID), Open MPI (OMPI_COMM_WORLD_*), MPICH and PMI
/// (PMI_RANK, PMI_SIZE, MPI_LOCALRANKID), Slurm (SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS, SLURM_JOB_ID). The first
/// launcher that gives a rank gives all; a job id may come from another, since torchrun and mpirun often run under
/// Slurm.
JobIdentity job_identity(const Environment& environment);

/// The job of a rank that MPICH's launcher started, which passes it no id: its proxy on each host, one of the rank's
/// parents, is given the address of the launcher, the same on all hosts (hydra_pmi_proxy's --control-port), and which
/// of the launcher's groups of processes it starts (--pgid). Empty where there is no such proxy.
std::string hydra_job(const Procfs& procfs, pid_t pid);

/// The traced process as the recording knows it. `utc_offset_ns` is UTC minus CLOCK_MONOTONIC.
Process describe_process(const Procfs& procfs, pid_t pid, NodeId node, int64_t utc_offset_ns);

/// This node and the run of the agent that starts now, with an id of its own. `name_flag`: see node_name.
Node describe_node(const std::string& name_flag);

/// The name of this node: the flag if given, else STALLTRACE_NODE, else the Slurm node name, else the host name.
std::string node_name(const std::string& flag);

}  // namespace stalltrace::capture
