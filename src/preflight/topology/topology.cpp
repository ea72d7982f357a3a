// SPDX-License-Identifier: Apache-2.0
#include "preflight/topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace stalltrace::preflight {
namespace {

constexpr std::string_view kCheck = "topology";
constexpr size_t kLargestDump = 4 << 20;
constexpr size_t kMostNamed = 4;

bool linked(const PciDevice& a, const PciDevice& b) {
  return std::ranges::any_of(a.nvlinks, [&](const PciDevice::NvLink& one) {
    return one.is_switch ? std::ranges::any_of(b.nvlinks, &PciDevice::NvLink::is_switch) : one.target == b.address;
  });
}

std::string shown(const PciDevice& device) {
  return device.numa_node < 0 ? fmt::format("{} ({})", device.name, device.address)
                              : fmt::format("{} ({}, NUMA node {})", device.name, device.address, device.numa_node);
}

std::vector<const PciDevice*> of_kind(const Topology& topology, PciDevice::Kind kind) {
  std::vector<const PciDevice*> found;
  for (const PciDevice& device : topology.devices) {
    if (device.kind == kind) {
      found.push_back(&device);
    }
  }
  return found;
}

/// "PIX 8, SYS 24"
std::string counts_of(const std::map<PciPath, int64_t>& counts) {
  std::vector<std::string> parts;
  for (const auto& [path, count] : counts) {
    parts.push_back(fmt::format("{} {}", to_text(path), count));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void check_cards(const std::vector<const PciDevice*>& gpus, const std::vector<const PciDevice*>& nics,
                 HostReport& report) {
  std::map<PciPath, std::vector<const PciDevice*>> by_nearest;
  std::map<PciPath, int64_t> paths;
  for (const PciDevice* gpu : gpus) {
    PciPath nearest = PciPath::kSys;
    for (const PciDevice* nic : nics) {
      const PciPath path = path_between(*gpu, *nic);
      ++paths[path];
      nearest = std::min(nearest, path);
    }
    by_nearest[nearest].push_back(gpu);
  }
  report.facts["paths from GPUs to cards"] = counts_of(paths);
  for (const auto& [path, found] : by_nearest) {
    std::vector<std::string> names;
    for (size_t i = 0; i < found.size() && i < kMostNamed; ++i) {
      names.push_back(shown(*found[i]));
    }
    if (found.size() > kMostNamed) {
      names.push_back(fmt::format("{} more", found.size() - kMostNamed));
    }
    const std::string list = fmt::format("{}", fmt::join(names, ", "));
    if (path == PciPath::kSys) {
      report.add(std::string(kCheck), "", Outcome::kWarning,
                 fmt::format("every card is across NUMA nodes from {}", list),
                 "all its traffic takes the link between sockets: lspci -tv, is a card missing or in another slot?");
    } else if (path != by_nearest.begin()->first) {
      report.add(std::string(kCheck), "", Outcome::kWarning,
                 fmt::format("the nearest card of {} is at {}, of other GPUs at {}", list, to_text(path),
                             to_text(by_nearest.begin()->first)),
                 "is a card missing, down or in another slot? lspci -tv, ibdev2netdev");
    } else {
      report.add(
          std::string(kCheck), "", Outcome::kOk,
          fmt::format("{}, {}; the nearest card of {} is at {}", count_of(static_cast<int64_t>(gpus.size()), "GPU"),
                      count_of(static_cast<int64_t>(nics.size()), "card"),
                      found.size() == gpus.size() ? "each GPU" : list, to_text(path)));
    }
  }
}

}  // namespace

std::string_view to_text(PciPath path) {
  switch (path) {
    case PciPath::kSelf:
      return "X";
    case PciPath::kNvLink:
      return "NV";
    case PciPath::kPix:
      return "PIX";
    case PciPath::kPxb:
      return "PXB";
    case PciPath::kPhb:
      return "PHB";
    case PciPath::kNode:
      return "NODE";
    case PciPath::kSys:
      return "SYS";
  }
  return {};
}

PciPath path_between(const PciDevice& a, const PciDevice& b) {
  if (a.address == b.address && a.name == b.name) {
    return PciPath::kSelf;
  }
  if (linked(a, b) || linked(b, a)) {
    return PciPath::kNvLink;
  }
  if (!a.switches.empty() && !b.switches.empty() && a.switches.front() == b.switches.front()) {
    return a.switches == b.switches ? PciPath::kPix : PciPath::kPxb;
  }
  if (a.numa_node != b.numa_node) {
    return PciPath::kSys;
  }
  return a.host_bridge == b.host_bridge ? PciPath::kPhb : PciPath::kNode;
}

Topology read_topology(const Settings& settings, const HostFiles& files, const std::vector<std::string>& interfaces,
                       HostReport& report) {
  const std::string dump(settings.value("NCCL_TOPO_DUMP_FILE"));
  if (!dump.empty() && settings.has_file(dump)) {
    const auto xml = read_plain_file(files.of_process(dump), kLargestDump);
    auto parsed = xml ? parse_nccl_topology(*xml) : Result<Topology>(std::unexpected(xml.error()));
    if (parsed) {
      return *std::move(parsed);
    }
    report.add(std::string(kCheck), "NCCL_TOPO_DUMP_FILE", Outcome::kUnknown,
               fmt::format("={}: {}", dump, parsed.error().what),
               "NCCL writes it when a job starts; /sys is used instead");
  }
  return read_sysfs_topology(files, interfaces);
}

std::string topology_text(const Topology& topology) {
  if (of_kind(topology, PciDevice::Kind::kGpu).empty()) {
    return {};
  }
  std::string text = fmt::format("{:<10}", "");
  for (const PciDevice& device : topology.devices) {
    const std::string name = printable(device.name);  // of a file that the job wrote
    text += fmt::format(" {:>5}", name.size() <= 5 ? name : ".." + name.substr(name.size() - 3));
  }
  text += "  NUMA\n";
  for (const PciDevice& row : topology.devices) {
    text += fmt::format("{:<10}", printable(row.name).substr(0, 10));
    for (const PciDevice& column : topology.devices) {
      text += fmt::format(" {:>5}", to_text(path_between(row, column)));
    }
    text += row.numa_node < 0 ? "     -\n" : fmt::format("  {:>4}\n", row.numa_node);
  }
  return text +
         "NV NVLink  PIX, PXB one, several PCI switches  PHB host bridge  NODE, SYS within, across NUMA nodes\n\n";
}

void check_topology(const Topology& topology, HostReport& report) {
  const auto gpus = of_kind(topology, PciDevice::Kind::kGpu);
  const auto nics = of_kind(topology, PciDevice::Kind::kNic);
  if (gpus.empty()) {
    return;
  }
  report.facts["GPUs"] = std::to_string(gpus.size());
  if (!nics.empty()) {
    check_cards(gpus, nics, report);
  }
  std::map<PciPath, int64_t> paths;
  std::vector<std::string> apart;
  for (size_t i = 0; i < gpus.size(); ++i) {
    for (size_t k = i + 1; k < gpus.size(); ++k) {
      const PciPath path = path_between(*gpus[i], *gpus[k]);
      ++paths[path];
      if (path != PciPath::kNvLink) {
        apart.push_back(fmt::format("{} and {} ({})", gpus[i]->name, gpus[k]->name, to_text(path)));
      }
    }
  }
  if (!paths.empty()) {
    report.facts["paths between GPUs"] = counts_of(paths);
  }
  if (topology.has_nvlink && paths.contains(PciPath::kNvLink) && !apart.empty()) {
    const size_t more = apart.size() > kMostNamed ? apart.size() - kMostNamed : 0;
    apart.resize(apart.size() - more);
    report.add(std::string(kCheck), "", Outcome::kWarning,
               fmt::format("no NVLink between {}{}, while other GPUs have it", fmt::join(apart, ", "),
                           more == 0 ? "" : fmt::format(" and {} more pairs", more)),
               "nvidia-smi nvlink --status on that node: are links down? In some servers it is how they are built");
  }
}

}  // namespace stalltrace::preflight
