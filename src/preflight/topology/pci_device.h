// SPDX-License-Identifier: Apache-2.0
// GPUs and network cards of a host, and what is between two of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::preflight {

struct PciDevice {
  enum class Kind : uint8_t { kGpu, kNic };
  Kind kind = Kind::kGpu;
  std::string name;                   // "GPU0", "mlx5_0", "eth0"
  std::string address;                // "0000:15:00.0"
  std::vector<std::string> switches;  // PCI switches above it, the topmost first
  std::string host_bridge;            // "pci0000:00"; empty: not known
  int64_t numa_node = -1;             // -1: the firmware does not say

  struct NvLink {
    std::string target;  // address of a GPU or of an NVSwitch
    bool is_switch = false;
    int64_t count = 0;
  };
  std::vector<NvLink> nvlinks;
};

/// The names of `nvidia-smi topo -m`, the closest first.
enum class PciPath : uint8_t {
  kSelf,
  kNvLink,
  kPix,   // one PCI switch
  kPxb,   // several PCI switches
  kPhb,   // one host bridge
  kNode,  // host bridges of one NUMA node
  kSys,   // the link between NUMA nodes
};
std::string_view to_text(PciPath path);
PciPath path_between(const PciDevice& a, const PciDevice& b);

struct Topology {
  std::vector<PciDevice> devices;  // GPUs first
  bool has_nvlink = false;         // whether NVLink would be known
};

}  // namespace stalltrace::preflight
