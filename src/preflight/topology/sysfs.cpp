// SPDX-License-Identifier: Apache-2.0
// The topology of GPUs and network cards from /sys, without any vendor's library.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "preflight/topology/topology.h"

namespace stalltrace::preflight {
namespace {

constexpr size_t kMostBusDevices = 4096;  // of a bus
constexpr size_t kMostShown = 256;        // GPUs and cards of a host

bool is_pci_address(std::string_view name) {  // "0000:15:00.0"
  return std::ranges::count(name, ':') == 2 && std::ranges::count(name, '.') == 1;
}

std::vector<std::filesystem::path> entries(const std::string& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end;
       !error && at != end && found.size() < kMostBusDevices; at.increment(error)) {
    found.push_back(at->path());
  }
  std::ranges::sort(found);
  return found;
}

/// Where `link` leads: ".../pci0000:00/0000:00:01.0/0000:15:00.0". False: to no PCI device.
bool locate(const std::filesystem::path& link, PciDevice& device) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(link, error);
  if (error) {
    return false;
  }
  std::vector<std::string> chain;
  for (const std::filesystem::path& part : path) {
    const std::string name = part.string();
    if (name.starts_with("pci") && chain.empty()) {
      device.host_bridge = name;
    } else if (is_pci_address(name)) {
      chain.push_back(name);
    }
  }
  if (chain.empty()) {
    return false;
  }
  device.address = chain.back();
  // A switch is two of them, its upstream and a downstream port; the topmost is the host bridge's own port. This is how
  // NCCL counts, too (ncclTopoGetXmlFromSys).
  for (size_t at = chain.size(); at > 2; at -= 2) {
    device.switches.insert(device.switches.begin(), chain[at - 3]);
  }
  device.numa_node = parse_integer(HostFiles::read(path.string() + "/numa_node")).value_or(-1);
  return true;
}

bool is_gpu(const std::filesystem::path& device) {
  const std::string type = HostFiles::read((device / "class").string());
  const std::string vendor = HostFiles::read((device / "vendor").string());
  // Display controllers and processing accelerators of NVIDIA and AMD (pci.ids).
  return (vendor == "0x10de" && type.starts_with("0x0302")) ||
         (vendor == "0x1002" && (type.starts_with("0x0380") || type.starts_with("0x1200"))) ||
         (vendor == "0x10de" && type.starts_with("0x0300"));
}

}  // namespace

Topology read_sysfs_topology(const HostFiles& files, const std::vector<std::string>& interfaces) {
  Topology topology;
  for (const std::filesystem::path& entry : entries(files.sys + "/bus/pci/devices")) {
    PciDevice device{.kind = PciDevice::Kind::kGpu};
    if (topology.devices.size() < kMostShown && is_gpu(entry) && locate(entry, device)) {
      device.name = fmt::format("GPU{}", topology.devices.size());
      topology.devices.push_back(std::move(device));
    }
  }
  const auto add_card = [&](const std::filesystem::path& entry) {
    PciDevice device{.kind = PciDevice::Kind::kNic, .name = entry.filename().string()};
    if (topology.devices.size() < kMostShown && locate(entry / "device", device)) {
      topology.devices.push_back(std::move(device));
    }
  };
  const auto infiniband = entries(files.sys + "/class/infiniband");
  std::ranges::for_each(infiniband, add_card);
  for (const std::string& interface : interfaces) {
    if (infiniband.empty()) {
      add_card(std::filesystem::path(files.sys) / "class" / "net" / interface);
    }
  }
  return topology;
}

}  // namespace stalltrace::preflight
