// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/library_advice.h"

namespace stalltrace::analysis {
namespace {

constexpr LibraryAdvice kNcclAdvice{
    .interface_setting = "NCCL_SOCKET_IFNAME",
    .address = "MASTER_ADDR and MASTER_PORT, ",
    .inside =
        "look inside the processes: the device (GPU kernel, NVLink, Xid errors in dmesg), the library's network "
        "threads (gdb, py-spy dump --native), and whether traffic uses another transport than TCP",
    .all_recorded =
        "look at the devices (GPU clocks, ECC, NVLink), and at the other events of that time (stalltrace "
        "query)",
    .reading =
        "network threads' cores, copies to the device (PCIe width), what its device computes (NCCL reads only what its "
        "kernel takes)",
    .group_calls = "put Sends and Recvs that depend on each other into one group (ncclGroupStart/End)"};

/// AMD's library has NCCL's calls and variables.
constexpr LibraryAdvice kRcclAdvice{
    .interface_setting = kNcclAdvice.interface_setting,
    .address = kNcclAdvice.address,
    .inside =
        "look inside the processes: the device (GPU kernel, XGMI, errors of amdgpu in dmesg), the library's "
        "network threads (gdb, py-spy dump --native), and whether traffic uses another transport than TCP",
    .all_recorded =
        "look at the devices (GPU clocks, ECC, XGMI), and at the other events of that time (stalltrace "
        "query)",
    .reading =
        "network threads' cores, copies to the device (PCIe width), what its device computes (RCCL reads only what its "
        "kernel takes)",
    .group_calls = kNcclAdvice.group_calls};

constexpr LibraryAdvice kMpiAdvice{
    .interface_setting = "btl_tcp_if_include (OpenMPI; the equivalent of another MPI)",
    .address = "",
    .inside =
        "look inside the processes: where each is inside the library (stalltrace stacks, gdb), and whether "
        "traffic uses another transport than TCP (shared memory, UCX)",
    .all_recorded =
        "look at what else ran on the nodes' CPUs and memory, and at the other events of that time "
        "(stalltrace query)",
    .reading =
        "cores, memory bandwidth, what it does between its calls (without a progress thread an MPI library reads "
        "inside "
        "of them only)",
    .group_calls =
        "make Sends and Recvs that depend on each other without blocking (MPI_Isend, MPI_Irecv, "
        "MPI_Waitall; MPI_Sendrecv)"};

constexpr LibraryAdvice kGlooAdvice{
    .interface_setting = "GLOO_SOCKET_IFNAME",
    .address = "MASTER_ADDR and MASTER_PORT, ",
    .inside = "look inside the processes: what the library's threads do (stalltrace stacks, gdb, py-spy dump --native)",
    .all_recorded =
        "look at what else ran on the nodes' CPUs and memory, and at the other events of that time "
        "(stalltrace query)",
    .reading = "library's threads (their cores, who else has them), memory bandwidth",
    .group_calls = "start Sends and Recvs that depend on each other together (torch.distributed.batch_isend_irecv)"};

}  // namespace

const LibraryAdvice& advice_for(Library library) {
  switch (library) {
    case Library::kNccl:
      break;
    case Library::kRccl:
      return kRcclAdvice;
    case Library::kMpi:
      return kMpiAdvice;
    case Library::kGloo:
      return kGlooAdvice;
  }
  return kNcclAdvice;
}

Library library_of(const Timeline& timeline, uint32_t group) {
  const std::vector<uint32_t>& sequences = timeline.groups()[group].sequences;
  return sequences.empty() ? Library::kNccl : timeline.sequences()[sequences.front()].library;
}

}  // namespace stalltrace::analysis
