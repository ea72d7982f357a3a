// SPDX-License-Identifier: Apache-2.0
#include "preflight/network/interface_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "base/net/link_local.h"
#include "base/text.h"

namespace stalltrace::preflight {
namespace {

constexpr std::string_view kInterface = "interface";
constexpr std::string_view kCounters = "interface_errors";

/// Counters of /sys/class/net/NAME/statistics that count packets which did not arrive as they were sent.
constexpr std::array kErrorCounters{"rx_errors",        "tx_errors",      "rx_crc_errors",
                                    "rx_missed_errors", "rx_fifo_errors", "tx_carrier_errors"};

/// Of the received packets. rx_dropped counts those, too, that nothing on this host takes, such as the switch's own
/// (LLDP), some a minute: a smaller share may be that alone.
constexpr double kDroppedShare = 0.001;

std::string names_of(const std::vector<InterfaceAddress>& addresses) {
  std::set<std::string> names;
  for (const InterfaceAddress& one : addresses) {
    names.insert(one.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_docker(const InterfaceAddress& one) { return one.name.starts_with("docker") || one.name.starts_with("virbr"); }

/// Bridges and ends of container networks usually lead to no other node; a bridge can be the uplink, too.
bool is_inner(const InterfaceAddress& one, const HostFiles& files) {
  constexpr std::array<std::string_view, 9> kPrefixes{"br-",    "veth", "cni", "cali",  "flannel",
                                                      "cilium", "tun",  "lxc", "podman"};
  std::error_code error;
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return one.name.starts_with(prefix); }) ||
         std::filesystem::exists(fmt::format("{}/class/net/{}/bridge", files.sys, one.name), error);
}

/// Whether the settings name the interfaces, and did not only exclude some.
bool by_name(const std::string& setting) { return setting.size() > 1 && !setting.starts_with('^'); }

/// Names that select nothing, beside others that do.
void check_names(const std::string& setting, const std::vector<InterfaceAddress>& all, HostReport& report) {
  const InterfaceFilter filter(setting);
  for (const std::string& name : filter.names()) {
    const bool there = std::ranges::any_of(all, [&](const InterfaceAddress& one) {
      return filter.exact() ? one.name == name : one.name.starts_with(name);
    });
    if (by_name(setting) && !there) {
      report.add(std::string(kInterface), "NCCL_SOCKET_IFNAME", Outcome::kWarning,
                 fmt::format("={}: there is no {} here", setting, name), "is the list another node's?");
    }
  }
}

void check_choice(const Settings& settings, const std::vector<InterfaceAddress>& all, const ChosenInterfaces& chosen,
                  const HostFiles& files, HostReport& report) {
  const std::string setting(settings.value("NCCL_SOCKET_IFNAME"));
  if (chosen.addresses.empty()) {
    const std::string family(settings.value("NCCL_SOCKET_FAMILY"));
    std::vector<InterfaceAddress> running;
    std::ranges::copy_if(all, std::back_inserter(running), &InterfaceAddress::running);
    report.add(std::string(kInterface), "", Outcome::kFailed,
               chosen.by_setting ? fmt::format("NCCL_SOCKET_IFNAME={}{} selects no running interface", setting,
                                               family.empty() ? "" : fmt::format(" with NCCL_SOCKET_FAMILY={}", family))
                                 : "no running interface has an IP address",
               running.empty() ? "bring an interface up" : fmt::format("name one of: {}", names_of(running)));
    return;
  }
  check_names(setting, all, report);
  for (const InterfaceAddress& one : chosen.addresses) {
    const std::string by = chosen.by_setting ? fmt::format("by NCCL_SOCKET_IFNAME={}", setting) : "by NCCL's own rule";
    const std::string detail = fmt::format("NCCL uses {} ({})", one.address, by);
    if (one.loopback) {
      report.add(std::string(kInterface), one.name, by_name(setting) ? Outcome::kWarning : Outcome::kFailed,
                 detail + ": no other node reaches it",
                 "set NCCL_SOCKET_IFNAME to the interface between the nodes; a job on this node alone works");
    } else if (is_docker(one) && !chosen.by_setting) {
      report.add(std::string(kInterface), one.name, Outcome::kFailed, detail + ": a bridge inside this node",
                 "bring the interface between the nodes up, or name it in NCCL_SOCKET_IFNAME");
    } else if (!chosen.by_setting && is_inner(one, files)) {
      report.add(std::string(kInterface), one.name, Outcome::kWarning,
                 detail + ": a bridge, or a network of containers",
                 "if other nodes are not behind it, name the right interface in NCCL_SOCKET_IFNAME");
    } else if (one.ipv6 && is_link_local(one.address)) {
      report.add(std::string(kInterface), one.name, Outcome::kWarning, detail + ": a link-local address",
                 "give it an address, or set NCCL_SOCKET_FAMILY=AF_INET");
    } else {
      report.add(std::string(kInterface), one.name, Outcome::kOk, detail);
    }
  }
}

std::string statistic(const HostFiles& files, const std::string& interface, std::string_view name) {
  return HostFiles::read(fmt::format("{}/class/net/{}/{}", files.sys, interface, name));
}

/// Packets that were lost inside this host, on their way to a program or to the wire (include/uapi/linux/if_link.h).
void check_drops(const InterfaceAddress& one, const HostFiles& files, HostReport& report) {
  const auto count = [&](std::string_view name) {
    return parse_integer(statistic(files, one.name, fmt::format("statistics/{}", name))).value_or(0);
  };
  const int64_t received = count("rx_packets");
  const int64_t dropped = count("rx_dropped");
  if (dropped > 0 && static_cast<double>(dropped) >= kDroppedShare * static_cast<double>(received)) {
    report.add(std::string(kCounters), one.name, Outcome::kWarning,
               fmt::format("rx_dropped {} of {} packets since the interface came up: a queue of this host was full, or "
                           "nothing here takes their protocol or VLAN",
                           dropped, received),
               "look whether it grows under load; if so: ring buffers (ethtool -S, -g), the CPUs' queues "
               "(/proc/net/softnet_stat, net.core.netdev_max_backlog); else it is harmless");
  }
  if (const int64_t unsent = count("tx_dropped"); unsent > 0) {
    report.add(std::string(kCounters), one.name, Outcome::kWarning,
               fmt::format("tx_dropped {} since the interface came up: the driver's queue was full, or the driver "
                           "could not send",
                           unsent),
               "look whether it grows under load; if so: ring buffers (ethtool -S, -g), txqueuelen, the driver's "
               "messages (dmesg)");
  }
}

void check_health(const InterfaceAddress& one, const HostFiles& files, HostReport& report) {
  std::vector<std::string> counted;
  for (const std::string_view name : kErrorCounters) {
    const std::string value = statistic(files, one.name, fmt::format("statistics/{}", name));
    if (!value.empty() && value != "0") {
      counted.push_back(fmt::format("{} {}", name, value));
    }
  }
  if (!counted.empty()) {
    report.add(std::string(kCounters), one.name, Outcome::kWarning,
               fmt::format("errors since the interface came up: {}", fmt::join(counted, ", ")),
               "look whether they grow; if so: cable, transceiver, switch port, ring buffers (ethtool -S, -g)");
  }
  check_drops(one, files, report);
  const std::string duplex = statistic(files, one.name, "duplex");
  if (duplex == "half") {
    report.add(std::string(kInterface), one.name, Outcome::kFailed, "half duplex",
               "let both ends negotiate: cable, switch port, ethtool");
  }
}

/// Several interfaces carry the channels in turn: the slowest sets the speed.
void check_alike(const std::vector<InterfaceAddress>& chosen, const HostFiles& files, HostReport& report) {
  for (const auto& [file, what, unit] : {std::tuple{"mtu", "MTUs", ""}, std::tuple{"speed", "speeds", " Mbit/s"}}) {
    std::set<std::string> values;
    std::vector<std::string> texts;
    for (const InterfaceAddress& one : chosen) {
      const std::string value = statistic(files, one.name, file);
      if (!value.empty() && value != "-1") {
        values.insert(value);
        texts.push_back(fmt::format("{} {}{}", one.name, value, unit));
      }
    }
    if (values.size() > 1) {
      report.add(std::string(kInterface), "", Outcome::kWarning,
                 fmt::format("NCCL's interfaces have different {}: {}", what, fmt::join(texts, ", ")),
                 "select those between the nodes with NCCL_SOCKET_IFNAME");
    }
  }
}

}  // namespace

void check_interfaces(const Settings& settings, const std::vector<InterfaceAddress>& all, const HostFiles& files,
                      HostReport& report) {
  const ChosenInterfaces chosen =
      choose_interfaces(all, settings.value("NCCL_SOCKET_IFNAME"), settings.value("NCCL_SOCKET_FAMILY"));
  check_choice(settings, all, chosen, files, report);
  for (const InterfaceAddress& one : chosen.addresses) {
    check_health(one, files, report);
  }
  check_alike(chosen.addresses, files, report);
  report.facts["interfaces"] = names_of(chosen.addresses);
  if (!chosen.addresses.empty()) {
    const InterfaceAddress& first = chosen.addresses.front();
    report.facts[kAddressFamily] = first.ipv6 ? "IPv6" : "IPv4";
  }
  for (const InterfaceAddress& one : chosen.addresses) {
    if (const std::string mtu = statistic(files, one.name, "mtu"); !mtu.empty()) {
      report.facts["MTU of " + one.name] = mtu;
    }
    if (const std::string speed = statistic(files, one.name, "speed"); !speed.empty() && speed != "-1") {
      report.facts["Mbit/s of " + one.name] = speed;
    }
  }
}

}  // namespace stalltrace::preflight
