// SPDX-License-Identifier: Apache-2.0
// Parsers for the kernel's text files about the host. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::capture {

/// One line of /proc/net/softnet_stat: a CPU's queue of received packets.
struct SoftnetCpu {
  uint64_t dropped = 0;   // the queue was full
  uint64_t squeezed = 0;  // its turn ended before the queue was empty
};
std::vector<SoftnetCpu> parse_softnet(std::string_view text);

/// One line of /proc/net/dev.
struct InterfaceCounters {
  std::string name;
  uint64_t rx_errors = 0;
  uint64_t rx_dropped = 0;
  uint64_t tx_errors = 0;
  uint64_t tx_dropped = 0;
};
std::vector<InterfaceCounters> parse_net_dev(std::string_view text);

/// `total` of the line that begins with `kind` ("some", "full") in a /proc/pressure file, in microseconds.
std::optional<uint64_t> parse_pressure(std::string_view text, std::string_view kind);

/// The number after `key` in a file of "key value" lines: cpu.stat, memory.events, memory.oom_control, /proc/PID/io.
std::optional<uint64_t> parse_keyed(std::string_view text, std::string_view key);

/// A process's cgroup in one hierarchy, from /proc/PID/cgroup.
struct CgroupPath {
  std::string controllers;  // "cpu,cpuacct"; empty: the unified hierarchy
  std::string path;         // "/docker/4711"
};
std::vector<CgroupPath> parse_cgroups(std::string_view text);

}  // namespace stalltrace::capture
