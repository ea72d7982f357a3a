// SPDX-License-Identifier: Apache-2.0
// Counters of the host and of traced processes' cgroups → rows of `host_sample` and `port_counter`. The roots of /proc
// and /sys are replaceable, so that tests and the lab can fake a host. A counter is written when it has changed,
// together with its last unchanged value: between two rows of one counter it rose. One thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/numbers/changed_values.h"
#include "model/events.h"

namespace stalltrace::capture {

struct HostRoots {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string cgroup = "/sys/fs/cgroup";
};

class HostSampler {
 public:
  /// `sink` must outlive the sampler.
  HostSampler(HostRoots roots, NodeId node, EventSink& sink) : roots_(std::move(roots)), node_(node), sink_(sink) {}

  /// Reads all counters; call it about once a second. `pids` are the running traced processes.
  void sample(int64_t utc_ns, const std::set<pid_t>& pids);
  /// Dropped packets are counted on this host: they are written with every sample, so that zero means zero and not
  /// unknown.
  void counts_drops() { counts_drops_ = true; }

 private:
  struct CgroupCounters {
    std::string path;
    double throttled_periods = 0;
    double throttled_us = 0;
    std::optional<double> oom_kills;  // then the others are not of this file
  };
  /// `key` names the counter; `write` makes a row of a value and its time.
  template <typename Write>
  void note(std::string key, double value, const Write& write);
  void note_host(std::string_view name, const std::string& detail, double value);
  void sample_network();
  void sample_pressure();
  const std::vector<CgroupCounters>& counters_of_cgroups(pid_t pid);
  void sample_process(pid_t pid);
  void sample_ports();

  HostRoots roots_;
  NodeId node_;
  EventSink& sink_;
  bool counts_drops_ = false;
  int64_t now_ns_ = 0;
  pid_t now_pid_ = 0;                                           // process whose counters are being read
  std::map<std::string, std::vector<CgroupCounters>> cgroups_;  // of this sample, by the text of /proc/PID/cgroup
  ChangedValues numbers_;  // the owner of a process's counter is the process: it is forgotten when that ends
};

}  // namespace stalltrace::capture
