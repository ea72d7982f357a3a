// SPDX-License-Identifier: Apache-2.0
#include "capture/host/host_sampler.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "capture/host/host_files.h"
#include "model/events/port_counters.h"

namespace stalltrace::capture {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFileLimit = 256 << 10;
constexpr double kNsPerUs = 1000;

std::string text_of(const std::string& path) { return read_file(path, kFileLimit).value_or(""); }

/// The mount folder of a version 1 hierarchy: both "cpu,cpuacct" and "cpu" are in use.
std::string hierarchy(const std::string& root, std::string_view controllers, std::string_view controller) {
  std::error_code error;
  const std::string joined = root + "/" + std::string(controllers);
  return fs::exists(joined, error) ? joined : root + "/" + std::string(controller);
}

bool lists(std::string_view controllers, std::string_view controller) {
  const auto all = split(controllers, ',');
  return std::find(all.begin(), all.end(), controller) != all.end();
}

/// Adds the folders from the process's cgroup up to `root`, without the root's own: each level may have a limit.
void add_levels(const std::string& root, std::string path, std::string_view file,
                std::vector<std::pair<std::string, std::string>>& files) {
  std::error_code error;
  for (; path.size() > 1; path.resize(path.rfind('/'))) {
    if (const std::string name = root + path + "/" + std::string(file); fs::exists(name, error)) {
      files.emplace_back(name, path);
    }
  }
}

/// The files of cgroups (the text of /proc/PID/cgroup) that count throttling and out-of-memory kills, in either
/// version.
std::vector<std::pair<std::string, std::string>> cgroup_files(const HostRoots& roots, std::string_view cgroups) {
  std::vector<std::pair<std::string, std::string>> files;
  std::error_code error;
  for (const CgroupPath& cgroup : parse_cgroups(cgroups)) {
    if (cgroup.controllers.empty()) {
      const bool hybrid = fs::exists(roots.cgroup + "/unified", error);
      const std::string root = roots.cgroup + (hybrid ? "/unified" : "");
      add_levels(root, cgroup.path, "cpu.stat", files);
      add_levels(root, cgroup.path, "memory.events", files);
    } else if (lists(cgroup.controllers, "cpu")) {
      add_levels(hierarchy(roots.cgroup, cgroup.controllers, "cpu"), cgroup.path, "cpu.stat", files);
    } else if (lists(cgroup.controllers, "memory")) {
      add_levels(hierarchy(roots.cgroup, cgroup.controllers, "memory"), cgroup.path, "memory.oom_control", files);
    }
  }
  return files;
}

}  // namespace

template <typename Write>
void HostSampler::note(std::string key, double value, const Write& write) {
  numbers_.read(std::move(key), value, now_ns_, write, now_pid_);
}

void HostSampler::note_host(std::string_view name, const std::string& detail, double value) {
  note(std::string(name) + " " + detail, value, [&](double reported, int64_t time_ns) {
    sink_.accept(HostSample{node_, time_ns, std::string(name), detail, reported});
  });
}

void HostSampler::sample_network() {
  const auto cpus = parse_softnet(text_of(roots_.proc + "/self/net/softnet_stat"));
  for (size_t cpu = 0; cpu < cpus.size(); ++cpu) {
    const std::string name = "cpu" + std::to_string(cpu);
    note_host("softnet_drops", name, static_cast<double>(cpus[cpu].dropped));
    note_host("softnet_squeezes", name, static_cast<double>(cpus[cpu].squeezed));
  }
  for (const InterfaceCounters& interface : parse_net_dev(text_of(roots_.proc + "/self/net/dev"))) {
    note_host("net_rx_errors", interface.name, static_cast<double>(interface.rx_errors));
    note_host("net_rx_drops", interface.name, static_cast<double>(interface.rx_dropped));
    note_host("net_tx_errors", interface.name, static_cast<double>(interface.tx_errors));
    note_host("net_tx_drops", interface.name, static_cast<double>(interface.tx_dropped));
  }
}

void HostSampler::sample_pressure() {
  struct Pressure {
    const char* file;
    const char* kind;
    const char* name;
  };
  static constexpr std::array kPressures = {
      Pressure{"cpu", "some", "pressure_cpu_some_us"}, Pressure{"memory", "some", "pressure_memory_some_us"},
      Pressure{"memory", "full", "pressure_memory_full_us"}, Pressure{"io", "full", "pressure_io_full_us"}};
  for (const Pressure& pressure : kPressures) {
    if (const auto total = parse_pressure(text_of(roots_.proc + "/pressure/" + pressure.file), pressure.kind)) {
      note_host(pressure.name, "", static_cast<double>(*total));
    }
  }
}

/// Their files are found each time, since a process may be moved, but once for all processes of the same cgroups.
const std::vector<HostSampler::CgroupCounters>& HostSampler::counters_of_cgroups(pid_t pid) {
  const std::string cgroups = text_of(roots_.proc + "/" + std::to_string(pid) + "/cgroup");
  const auto [known, fresh] = cgroups_.try_emplace(cgroups);
  if (fresh) {
    for (auto& [file, path] : cgroup_files(roots_, cgroups)) {
      const std::string text = text_of(file);
      if (const auto periods = parse_keyed(text, "nr_throttled")) {
        const auto ns = parse_keyed(text, "throttled_time");
        known->second.push_back(
            {.path = std::move(path),
             .throttled_periods = static_cast<double>(*periods),
             .throttled_us = ns ? static_cast<double>(*ns) / kNsPerUs
                                : static_cast<double>(parse_keyed(text, "throttled_usec").value_or(0))});
      } else if (const auto kills = parse_keyed(text, "oom_kill")) {
        known->second.push_back({.path = std::move(path), .oom_kills = static_cast<double>(*kills)});
      }
    }
  }
  return known->second;
}

void HostSampler::sample_process(pid_t pid) {
  for (const CgroupCounters& cgroup : counters_of_cgroups(pid)) {
    const std::string detail = std::to_string(pid) + ":" + cgroup.path;
    if (cgroup.oom_kills) {
      note_host("oom_kills", detail, *cgroup.oom_kills);
    } else {
      note_host("throttled_periods", detail, cgroup.throttled_periods);
      note_host("throttled_us", detail, cgroup.throttled_us);
    }
  }
  const std::string io = text_of(roots_.proc + "/" + std::to_string(pid) + "/io");
  for (const auto& [key, name] :
       {std::pair{"read_bytes:", "io_read_bytes"}, std::pair{"write_bytes:", "io_write_bytes"}}) {
    if (const auto bytes = parse_keyed(io, key)) {
      note_host(name, std::to_string(pid), static_cast<double>(*bytes));
    }
  }
}

void HostSampler::sample_ports() {
  std::error_code error;
  for (fs::directory_iterator device(roots_.sys + "/class/infiniband", error), end; !error && device != end;
       device.increment(error)) {
    const std::string name = device->path().filename();
    std::error_code port_error;
    for (fs::directory_iterator port(device->path() / "ports", port_error); !port_error && port != end;
         port.increment(port_error)) {
      const auto number = parse_integer(port->path().filename().string());
      if (!number) {
        continue;
      }
      for (const char* folder : {"counters", "hw_counters"}) {
        for (const PortCounterName& known : port_counter_names()) {
          const std::string_view counter = known.name;
          const auto text = read_file(port->path() / folder / counter, kFileLimit);
          const auto value = text ? parse_integer(trim(*text)) : Result<int64_t>(0);
          if (text && value) {
            note(name + "/" + std::to_string(*number) + "/" + std::string(counter), static_cast<double>(*value),
                 [&](double reported, int64_t time_ns) {
                   sink_.accept(PortCounter{node_, time_ns, name, static_cast<int32_t>(*number), std::string(counter),
                                            static_cast<uint64_t>(reported)});
                 });
          }
        }
      }
    }
  }
}

void HostSampler::sample(int64_t utc_ns, const std::set<pid_t>& pids) {
  now_ns_ = utc_ns;
  cgroups_.clear();
  if (counts_drops_) {
    sink_.accept(HostSample{node_, now_ns_, "drop_reasons_now", "", 1});
  }
  sample_network();
  sample_pressure();
  for (const pid_t pid : pids) {
    now_pid_ = pid;
    sample_process(pid);
  }
  now_pid_ = 0;
  numbers_.forget_if([&](int64_t pid) { return pid != 0 && !pids.contains(static_cast<pid_t>(pid)); });
  sample_ports();
}

}  // namespace stalltrace::capture
