// SPDX-License-Identifier: Apache-2.0
#include "preflight/network/infiniband.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "model/events/port_counters.h"

namespace stalltrace::preflight {
namespace {

constexpr std::string_view kPort = "infiniband_port";
constexpr std::string_view kPortErrors = "infiniband_errors";

std::vector<std::string> folder_names(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string folder_of(const HostFiles& files, const InfinibandPort& port) {
  return fmt::format("{}/class/infiniband/{}/ports/{}", files.sys, port.device, port.port);
}

bool is_word(std::string_view value, std::string_view word) {
  return std::ranges::equal(value, word,
                            [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); });
}

/// Without the number before it: "ACTIVE".
std::string_view word_of(std::string_view state) {
  const size_t colon = state.find(": ");
  return colon == std::string_view::npos ? state : state.substr(colon + 2);
}

void check_errors(const InfinibandPort& port, const HostFiles& files, HostReport& report) {
  for (const std::string folder : {"counters", "hw_counters"}) {
    for (const PortCounterName& counter : port_counter_names()) {
      const std::string value = HostFiles::read(fmt::format("{}/{}/{}", folder_of(files, port), folder, counter.name));
      if (counter.kind == PortCounterKind::kError && !value.empty() && value != "0") {
        report.add(std::string(kPortErrors), port.name(), Outcome::kWarning,
                   fmt::format("{} {} since it was cleared: {}", counter.name, value, counter.meaning),
                   fmt::format("if it grows under load: {}", counter.action));
      }
    }
  }
}

void check_port(const InfinibandPort& port, bool asked_for, const HostFiles& files, HostReport& report) {
  const std::string detail =
      fmt::format("{}, {}, {}, {}", word_of(port.state), word_of(port.physical_state), port.rate, port.link_layer);
  if (!port.has_link_layer()) {
    report.add(std::string(kPort), port.name(), Outcome::kOk, detail + ": for a plugin, not for NCCL's own transport");
  } else if (port.active()) {
    report.add(std::string(kPort), port.name(), Outcome::kOk, detail);
  } else {
    report.add(std::string(kPort), port.name(), asked_for ? Outcome::kWarning : Outcome::kOk,
               detail + ": NCCL leaves it out",
               !asked_for ? ""
               : word_of(port.physical_state) == "LinkUp"
                   ? "the link is up and no subnet manager has activated the port: look at opensm, or the Ethernet side"
                   : "no link: cable, transceiver, switch port; or take it out of NCCL_IB_HCA");
  }
  check_errors(port, files, report);
}

/// NCCL takes active ports only (src/transport/net_ib/init.cc). They should be alike: the slowest sets the speed.
void check_active(const Settings& settings, const std::vector<InfinibandPort>& selected, HostReport& report) {
  std::set<std::string> rates;
  int64_t active = 0;
  for (const InfinibandPort& port : selected) {
    if (port.active() && port.has_link_layer()) {
      rates.insert(port.rate);
      ++active;
    }
  }
  if (active == 0) {
    const bool wanted = is_word(settings.value("NCCL_NET"), "IB");
    const bool any = std::ranges::any_of(selected, &InfinibandPort::has_link_layer);
    if (wanted || any) {
      report.add(std::string(kPort), wanted ? "NCCL_NET" : "", Outcome::kFailed,
                 wanted ? "=IB: no port of this host is active, and NCCL fails" : "no port is active: NCCL takes TCP",
                 "cable, transceiver, switch port, subnet manager; or NCCL_IB_DISABLE=1 if TCP is intended");
    }
    return;
  }
  if (rates.size() > 1) {
    report.add(std::string(kPort), "", Outcome::kWarning,
               fmt::format("the active ports have different rates: {}", fmt::join(rates, ", ")),
               "a port that negotiated less than its neighbours has a bad cable or switch port; a storage port is left "
               "out with NCCL_IB_HCA");
  }
  report.facts["InfiniBand rates"] = fmt::format("{}", fmt::join(rates, ", "));
  report.facts["active InfiniBand ports"] = std::to_string(active);
}

/// NCCL_IB_HCA: one "^" and then one "=", each of which may be missing, stand before the entries.
struct DeviceList {
  explicit DeviceList(std::string_view setting) : entries(setting) {
    excludes = entries.starts_with('^');
    entries.remove_prefix(excludes ? 1 : 0);
    exact = entries.starts_with('=');
    entries.remove_prefix(exact ? 1 : 0);
    entries = entries.find_first_not_of(',') == std::string_view::npos ? std::string_view() : entries;
  }
  bool excludes = false;
  bool exact = false;
  std::string_view entries;  // of the setting; empty if there is none between its commas
};

void check_setting(const std::string& setting, const std::vector<InfinibandPort>& all,
                   const std::vector<InfinibandPort>& selected, HostReport& report) {
  if (setting.empty()) {
    return;
  }
  if (selected.empty()) {
    std::set<std::string> names;
    for (const InfinibandPort& port : all) {
      names.insert(port.device);
    }
    report.add(std::string(kPort), "NCCL_IB_HCA", Outcome::kFailed,
               fmt::format("={} selects no port: NCCL takes TCP", setting),
               fmt::format("devices here: {}", fmt::join(names, ", ")));
    return;
  }
  const DeviceList list(setting);
  for (std::string_view entry : split(list.entries, ',')) {
    entry = entry.substr(0, entry.find(':'));
    const bool there = std::ranges::find(all, entry, &InfinibandPort::device) != all.end();
    const auto other = std::ranges::find_if(
        all, [&](const InfinibandPort& port) { return port.device.starts_with(entry) && port.device != entry; });
    if (!there && (list.exact || other == all.end()) && !list.excludes && !entry.empty()) {
      report.add(std::string(kPort), "NCCL_IB_HCA", Outcome::kFailed,
                 fmt::format("={}: there is no {} here", setting, entry),
                 "a card is missing, or the list is another node's");
    } else if (there && !list.exact && other != all.end()) {  // "mlx5_1" selects mlx5_10 as well
      report.add(std::string(kPort), "NCCL_IB_HCA", Outcome::kWarning,
                 fmt::format("={}: {} is a prefix, and selects {} too", setting, entry, other->device),
                 "write = before the list: names are exact then");
    }
  }
}

}  // namespace

std::vector<InfinibandPort> read_ports(const HostFiles& files) {
  std::vector<InfinibandPort> ports;
  const std::string root = files.sys + "/class/infiniband";
  for (const std::string& device : folder_names(root)) {
    for (const std::string& number : folder_names(fmt::format("{}/{}/ports", root, device))) {
      const Result<int64_t> port = parse_integer(number);
      if (!port) {
        continue;
      }
      InfinibandPort one{.device = device, .port = static_cast<int>(*port)};
      const std::string folder = folder_of(files, one);
      one.state = HostFiles::read(folder + "/state");
      one.physical_state = HostFiles::read(folder + "/phys_state");
      one.rate = HostFiles::read(folder + "/rate");
      one.link_layer = HostFiles::read(folder + "/link_layer");
      ports.push_back(std::move(one));
    }
  }
  return ports;
}

bool is_selected(const InfinibandPort& port, std::string_view setting) {
  const DeviceList list(setting);
  // An empty list selects all (matchIfList in NCCL's src/misc/utils.cc); "^" turns it round.
  const bool listed =
      list.entries.empty() || std::ranges::any_of(split(list.entries, ','), [&](std::string_view entry) {
        const std::vector<std::string_view> parts = split(entry, ':');
        const bool name = list.exact ? port.device == parts[0] : port.device.starts_with(parts[0]);
        return !parts[0].empty() && name &&
               (parts.size() < 2 || parts[1].empty() || parts[1] == std::to_string(port.port));
      });
  return listed != list.excludes;
}

bool uses_infiniband(const Settings& settings) {
  const std::string_view net = settings.value("NCCL_NET");
  return settings.integer("NCCL_IB_DISABLE", 0) == 0 && (net.empty() || is_word(net, "IB"));
}

void check_infiniband(const Settings& settings, const HostFiles& files, HostReport& report) {
  const std::vector<InfinibandPort> all = read_ports(files);
  const std::string setting(settings.value("NCCL_IB_HCA"));
  if (all.empty()) {
    const bool wanted = is_word(settings.value("NCCL_NET"), "IB");
    if (wanted || (!setting.empty() && uses_infiniband(settings))) {
      report.add(std::string(kPort), wanted ? "NCCL_NET" : "NCCL_IB_HCA", Outcome::kFailed,
                 "asks for InfiniBand, and this host has no device",
                 "load the driver, or let the container see /sys/class/infiniband and /dev/infiniband");
    }
    return;
  }
  if (!uses_infiniband(settings)) {
    const std::string_view net = settings.value("NCCL_NET");
    const std::string_view plugin = settings.value("NCCL_NET_PLUGIN");
    const bool by_tcp = is_word(net, "Socket") || (net.empty() && (plugin.empty() || plugin == "none"));
    const bool usable =
        std::ranges::any_of(all, [](const auto& port) { return port.active() && port.has_link_layer(); });
    if (by_tcp && usable) {
      report.add(
          std::string(kPort), net.empty() ? "NCCL_IB_DISABLE" : "NCCL_NET", Outcome::kWarning,
          "NCCL's InfiniBand transport is off, although this host has active ports: without a plugin, data takes TCP",
          "remove it, unless TCP is intended");
    }
    return;
  }
  std::vector<InfinibandPort> selected;
  std::ranges::copy_if(all, std::back_inserter(selected), [&](const auto& port) { return is_selected(port, setting); });
  check_setting(setting, all, selected, report);
  for (const InfinibandPort& port : selected) {
    check_port(port, !setting.empty(), files, report);
  }
  check_active(settings, selected, report);
}

}  // namespace stalltrace::preflight
