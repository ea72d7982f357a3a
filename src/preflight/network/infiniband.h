// SPDX-License-Identifier: Apache-2.0
// InfiniBand and RoCE ports (Documentation/ABI/stable/sysfs-class-infiniband), and which of them NCCL_IB_HCA selects.
#pragma once

#include <string>
#include <vector>

#include "preflight/host_check.h"
#include "preflight/nccl/settings.h"

namespace stalltrace::preflight {

struct InfinibandPort {
  std::string device;  // "mlx5_0"
  int port = 1;
  std::string state;           // "4: ACTIVE"
  std::string physical_state;  // "5: LinkUp"
  std::string rate;            // "400 Gb/sec (4X NDR)"
  std::string link_layer;      // "InfiniBand", "Ethernet"
  [[nodiscard]] bool active() const { return state.starts_with("4:"); }
  /// By NCCL's own InfiniBand transport. Others, such as EFA's ("Unspecified"), are for plugins.
  [[nodiscard]] bool has_link_layer() const { return link_layer == "InfiniBand" || link_layer == "Ethernet"; }
  [[nodiscard]] std::string name() const { return device + "/" + std::to_string(port); }
};

/// Ports by device and number, as text; none if there is no /sys/class/infiniband. A field that can't be read is empty.
std::vector<InfinibandPort> read_ports(const HostFiles& files);
/// `setting` is NCCL_IB_HCA: "^=mlx5_1:1,mlx5_2"; empty selects all.
bool is_selected(const InfinibandPort& port, std::string_view setting);

/// Whether NCCL may take its own InfiniBand transport: it is not switched off, and no other one is asked for.
bool uses_infiniband(const Settings& settings);

/// Adds rows on ports, their errors and NCCL_IB_HCA to `report`, and what should be the same on all hosts to its facts.
/// Never fails; adds nothing where there are no ports and the settings ask for none.
void check_infiniband(const Settings& settings, const HostFiles& files, HostReport& report);

}  // namespace stalltrace::preflight
