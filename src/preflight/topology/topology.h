// SPDX-License-Identifier: Apache-2.0
// How the GPUs and network cards of a host are connected: PCI switches, host bridges, NUMA nodes, NVLink.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "preflight/host_check.h"
#include "preflight/nccl/settings.h"
#include "preflight/topology/pci_device.h"

namespace stalltrace::preflight {

/// From /sys: GPUs by their class and vendor (NVIDIA, AMD), cards by /sys/class/infiniband and, where `interfaces`
/// names them, /sys/class/net. NVLink is not known there.
Topology read_sysfs_topology(const HostFiles& files, const std::vector<std::string>& interfaces);

/// What NCCL writes to NCCL_TOPO_DUMP_FILE (src/graph/xml.cc of NCCL 2.30: system, cpu, pci, gpu, nvlink, nic, net).
/// Errors: another format, or larger than a host.
Result<Topology> parse_nccl_topology(std::string_view xml);

/// Of this host: NCCL's dump if a setting names one that exists, else /sys. `interfaces`: those that NCCL's sockets
/// take.
Topology read_topology(const Settings& settings, const HostFiles& files, const std::vector<std::string>& interfaces,
                       HostReport& report);

/// The matrix, in 80 columns where it fits; empty without a GPU.
std::string topology_text(const Topology& topology);

/// Cards that a GPU reaches only across NUMA nodes, or farther than others do; GPUs without NVLink between them.
void check_topology(const Topology& topology, HostReport& report);

}  // namespace stalltrace::preflight
