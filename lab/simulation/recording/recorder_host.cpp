// SPDX-License-Identifier: Apache-2.0
// What the agent counts on its host, and at its InfiniBand port. Part of Recorder. No fault of the simulation is one of
// a host: its counters are those of a healthy one, and a packet that is lost was lost between hosts. Faults of the
// fabric are counted by ports.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "base/numbers/changed_values.h"
#include "lab/simulation/job.h"
#include "lab/simulation/random.h"
#include "lab/simulation/recording/recorder.h"
#include "model/events/port_counters.h"

namespace stalltrace::simulation {
namespace {

constexpr int64_t kSampleNs = kNsPerSecond;
constexpr int kCpusOfRank = 8;
constexpr const char* kJobCgroup = "/system.slice/slurmstepd.scope/job_1";
constexpr int kCgroupLevels = 3;
constexpr const char* kPort = "mlx5_0";
constexpr int64_t kBytesOfWord = 4;              // port_xmit_data counts words
constexpr double kErrorsPerSecond = 400;         // of a link that is about to fail
constexpr double kCreditWaitsPerSecond = 100e6;  // ticks of a nanosecond, of a fabric that is full

/// Other drivers' counters, and those that only RoCE has.
bool infiniband_has(std::string_view counter) {
  constexpr std::array kOthers{"rx_icrc_encapsulated", "np_cnp_sent",        "np_ecn_marked_roce_packets",
                               "rp_cnp_handled",       "roce_adp_retrans",   "roce_slow_restart",
                               "tx_cnp_pkts",          "rx_ecn_marked_pkts", "rx_cnp_pkts"};
  return std::ranges::find(kOthers, counter) == kOthers.end();
}

std::string cgroup_of(int level) {
  std::string path = kJobCgroup;
  for (int above = level; above > 0; --above) {
    path.resize(path.rfind('/'));
  }
  return path;
}

bool is_running(const RankHistory& rank, int64_t time_ns) {
  const bool stopped = std::ranges::any_of(
      rank.stopped, [&](const auto& stop) { return stop.first <= time_ns && time_ns < stop.second; });
  return !stopped && time_ns <= rank.last_ns;
}

struct HostCounter {
  std::string name;
  std::string detail;
  double value = 0;
};

/// What counts on a host in good health, second by second.
class HostCounters {
 public:
  HostCounters(Random random, int cpus) : random_(random) {
    for (int cpu = 0; cpu < cpus; ++cpu) {
      add("softnet_drops", "cpu" + std::to_string(cpu), 0);
      add("softnet_squeezes", "cpu" + std::to_string(cpu), static_cast<double>(random_.below(500)));
    }
    for (const char* interface : {"lo", "eth0", "ib0"}) {
      add("net_rx_errors", interface, 0);
      add("net_rx_drops", interface,
          std::string_view(interface) == "eth0" ? 1000 + static_cast<double>(random_.below(5000)) : 0);
      add("net_tx_errors", interface, 0);
      add("net_tx_drops", interface, 0);
    }
    add("pressure_cpu_some_us", "", 1e9 + static_cast<double>(random_.below(1'000'000'000)));
    add("pressure_memory_some_us", "", static_cast<double>(random_.below(1'000'000)));
    add("pressure_memory_full_us", "", static_cast<double>(random_.below(100'000)));
    add("pressure_io_full_us", "", 1e6 + static_cast<double>(random_.below(100'000'000)));
  }

  /// A second has passed. `receives`: the kernel had packets to receive.
  void pass(bool receives) {
    for (HostCounter& counter : counters_) {
      if (counter.name == "softnet_squeezes" && receives && random_.chance(0.01)) {
        counter.value += 1;
      } else if (counter.name == "net_rx_drops" && counter.detail == "eth0" && random_.chance(1.0 / 30)) {
        counter.value += 1;  // LLDP, which nothing on the host listens to
      } else if (counter.name == "pressure_cpu_some_us") {
        counter.value += std::floor(random_.between(200, 5'000));
      } else if (counter.name == "pressure_io_full_us" && random_.chance(0.05)) {
        counter.value += std::floor(random_.between(50, 2'000));
      }
    }
  }
  [[nodiscard]] const std::vector<HostCounter>& all() const { return counters_; }

 private:
  void add(std::string name, std::string detail, double value) {
    counters_.push_back({std::move(name), std::move(detail), value});
  }
  Random random_;
  std::vector<HostCounter> counters_;
};

/// An unchanged reading is known to be the last one when the next has come.
template <typename Row>
void deliver_counted(std::vector<Row>& rows, EventSink& sink) {
  std::ranges::stable_sort(rows, {}, &Row::timestamp_ns);
  for (Row& row : rows) {
    sink.accept(std::move(row));
  }
}

}  // namespace

/// Once a second from the agent's beginning on, and at its end.
std::vector<int64_t> Recorder::host_samples_ns() const {
  std::vector<int64_t> times;
  for (int64_t at_ns = from_ns_ + kSampleNs; at_ns < to_ns_; at_ns += kSampleNs) {
    times.push_back(at_ns);
  }
  times.push_back(to_ns_);
  return times;
}

void Recorder::write_host_samples(EventSink& sink) const {
  Random random(options_.seed, 0x40'0000 + static_cast<uint64_t>(node_));
  HostCounters host(random, kCpusOfRank * options_.ranks_per_node);
  ChangedValues changed;
  std::map<int32_t, std::pair<double, double>> io;  // by process: bytes read, bytes written
  std::vector<HostSample> rows;
  const auto note = [&](const std::string& name, const std::string& detail, double value, int64_t at_ns) {
    changed.read(name + " " + detail, value, at_ns, [&](double reported, int64_t time_ns) {
      rows.push_back({Job::node_id(node_), to_clock(time_ns), name, detail, reported});
    });
  };
  for (const int64_t at_ns : host_samples_ns()) {
    rows.push_back({Job::node_id(node_), to_clock(at_ns), "drop_reasons_now", "", 1});
    bool running = false;
    for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
      for (int i = 0; i < options_.ranks_per_node; ++i) {
        const RankHistory& rank = of(attempt, node_ * options_.ranks_per_node + i);
        running = running || (rank.started_ns <= at_ns && is_running(rank, at_ns));
      }
    }
    host.pass(running && options_.tcp);
    for (const HostCounter& counter : host.all()) {
      note(counter.name, counter.detail, counter.value, at_ns);
    }
    for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
      for (int i = 0; i < options_.ranks_per_node; ++i) {
        const RankHistory& rank = of(attempt, node_ * options_.ranks_per_node + i);
        if (rank.started_ns > at_ns || rank.exit_ns.value_or(kNever) <= at_ns) {
          continue;
        }
        const std::string pid = std::to_string(rank.pid);
        for (int level = 0; level < kCgroupLevels; ++level) {
          note("throttled_periods", pid + ":" + cgroup_of(level), 0, at_ns);
          note("throttled_us", pid + ":" + cgroup_of(level), 0, at_ns);
          note("oom_kills", pid + ":" + cgroup_of(level), 0, at_ns);
        }
        auto& [read, written] = io.try_emplace(rank.pid, 300e6, 40960).first->second;
        if (is_running(rank, at_ns)) {  // its data set, and a line of its log
          read += random.chance(0.3) ? 1024.0 * 1024 * static_cast<double>(1 + random.below(8)) : 0;
          written += random.chance(0.05) ? 4096 : 0;
        }
        note("io_read_bytes", pid, read, at_ns);
        note("io_write_bytes", pid, written, at_ns);
      }
    }
  }
  deliver_counted(rows, sink);
}

/// How long the fault lasted within that time: from its first effect to its last one, which are a step apart.
double Recorder::seconds_of_fault(size_t fault, int64_t from_ns, int64_t to_ns) const {
  int64_t first_ns = kNever;
  int64_t last_ns = 0;
  for (const Effect& effect : history_.effects) {
    if (effect.fault == fault) {
      first_ns = std::min(first_ns, effect.from_ns);
      last_ns = std::max(last_ns, effect.to_ns);
    }
  }
  const int64_t shared_ns = std::min(to_ns, last_ns) - std::max(from_ns, first_ns);
  return static_cast<double>(std::max<int64_t>(0, shared_ns)) / static_cast<double>(kNsPerSecond);
}

/// The node's port carries all that its ranks exchange with other nodes, also what is TCP (IP over InfiniBand).
void Recorder::write_port_counters(EventSink& sink) const {
  Random random(options_.seed, 0x50'0000 + static_cast<uint64_t>(node_));
  const std::vector<int64_t> times = host_samples_ns();
  std::vector<double> sent(times.size());  // since the sample before
  std::vector<double> received(times.size());
  for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
    for (const uint32_t index : flows_here(attempt)) {
      const Flow& flow = flow_of(attempt, index);
      const double length_ns = static_cast<double>(std::max<int64_t>(1, flow.to_ns - flow.from_ns));
      std::vector<double>& sum = here(flow.src) ? sent : received;
      int64_t from_ns = flow.from_ns;
      for (auto sample = std::ranges::lower_bound(times, from_ns); sample != times.end() && from_ns < flow.to_ns;
           ++sample) {
        const int64_t to_ns = std::min(*sample, flow.to_ns);
        const double share = static_cast<double>(to_ns - from_ns) / length_ns;
        sum[static_cast<size_t>(sample - times.begin())] += share * static_cast<double>(flow.bytes);
        from_ns = std::max(from_ns, to_ns);
      }
    }
  }
  std::map<std::string_view, double> values;
  for (const PortCounterName& name : port_counter_names()) {
    if (infiniband_has(name.name)) {
      const bool counts_always = name.kind == PortCounterKind::kData || name.kind == PortCounterKind::kNoCredit;
      values[name.name] = counts_always ? 1e9 + static_cast<double>(random.below(1'000'000'000)) : 0;
    }
  }
  values["symbol_error"] = static_cast<double>(random.below(3));  // since the host was started
  ChangedValues changed;
  std::vector<PortCounter> rows;
  for (size_t i = 0; i < times.size(); ++i) {
    values["port_xmit_data"] += std::floor(sent[i] / kBytesOfWord);
    values["port_rcv_data"] += std::floor(received[i] / kBytesOfWord);
    if (sent[i] > 0) {
      values["port_xmit_wait"] += static_cast<double>(random.below(20'000));
    }
    for (size_t fault = 0; fault < options_.faults.size(); ++fault) {
      const double seconds = seconds_of_fault(fault, i == 0 ? from_ns_ : times[i - 1], times[i]);
      const Fault& of = options_.faults[fault];
      if (of.kind == FaultKind::kFabricErrors && here(of.rank)) {
        values["symbol_error"] += std::floor(seconds * kErrorsPerSecond * random.between(0.5, 1.5));
        values["port_rcv_errors"] += std::floor(seconds * kErrorsPerSecond * random.between(0.1, 0.3));
      } else if (of.kind == FaultKind::kCongestion) {
        values["port_xmit_wait"] += std::floor(seconds * kCreditWaitsPerSecond * random.between(0.5, 1.5));
      }
    }
    for (const PortCounterName& name : port_counter_names()) {
      if (const auto value = values.find(name.name); value != values.end()) {
        const std::string counter(name.name);
        changed.read(counter, value->second, times[i], [&](double reported, int64_t time_ns) {
          rows.push_back({Job::node_id(node_), to_clock(time_ns), kPort, 1, counter, static_cast<uint64_t>(reported)});
        });
      }
    }
  }
  deliver_counted(rows, sink);
}

}  // namespace stalltrace::simulation
