// SPDX-License-Identifier: Apache-2.0
// The BPF programs of this host, loaded and attached. Records come out of consume() as bytes; what they mean is decoded
// elsewhere. Everything attached is detached with the object. Of libbpf its users see nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/handle.h"
#include "base/result.h"
#include "capture/discover/elf_symbols.h"
#include "capture/kernel/kernel_options.h"
#include "capture/kernel/program_report.h"
#include "capture/kernel/programs.h"
#include "wire/host_drops.h"
#include "wire/scheduler.h"
#include "wire/tcp.h"

namespace stalltrace::capture {

class BpfPrograms {
 public:
  /// Probes of one file.
  enum class ProbeSet : size_t {};
  using RecordVisitor = std::function<void(std::span<const std::byte> record)>;

  /// Loads the programs and attaches all but the probes. What this kernel lacks or refuses is left out, see
  /// `evidence()`. Errors name what is lacking (BTF, privilege, a program without which nothing can be traced) and the
  /// remedy.
  static Result<std::unique_ptr<BpfPrograms>> load(const KernelOptions& options);
  ~BpfPrograms();
  BpfPrograms(const BpfPrograms&) = delete;
  BpfPrograms& operator=(const BpfPrograms&) = delete;

  /// Probes a file's functions, in every process that maps it now or later. The return probes come first; C++ functions
  /// that may throw have none, since an exception that meets one ends the process.
  Result<ProbeSet> attach_file(const std::string& path, std::span<const ProbePoint> points);

  /// Probes the profiler plugin's marker; from then on its connections' transfers are followed.
  Result<ProbeSet> attach_marker(const std::string& path, const MarkerPoint& marker);
  /// Takes back the probes that were attached last.
  void detach(ProbeSet probes);

  /// Begins to trace a process's network and scheduling; that ends with the process. One that is gone is no error.
  Status add_process(pid_t pid, uint64_t cgroup_id);
  /// Frees what was counted of the calls of a process that has ended.
  void forget_sequences(pid_t pid);
  /// With only_listed: puts a process in scope.
  Status list_process(pid_t pid);
  [[nodiscard]] bool is_listed(pid_t pid) const;

  /// Visits what the rings hold now, at most some 100,000 records of each: a flood must not keep the caller from
  /// writing down what it has. Never waits.
  void consume(const RecordVisitor& visit);
  /// Readable when a ring wants to be consumed early.
  [[nodiscard]] std::vector<int> descriptors() const;

  /// Visits every TCP socket of processes, wherever their network namespaces are, and ends spans that have been silent
  /// since before `idle_before_ns` (CLOCK_MONOTONIC): their records are then in the ring.
  Status list_sockets(const std::set<pid_t>& pids, uint64_t idle_before_ns,
                      const std::function<void(const st_socket_listing&)>& visit);
  /// Visits the threads of processes that are off the CPU now.
  Status list_threads(const std::set<pid_t>& pids, const std::function<void(const st_thread_listing&)>& visit);

  /// Visits what was counted of dropped packets since the last call, and forgets it. `reason` is the kernel's name
  /// without its prefix.
  void take_drops(
      const std::function<void(const st_drop_key& key, const st_drops& sum, const std::string& reason)>& visit);
  /// Whether dropped packets are counted here.
  [[nodiscard]] bool counts_drops() const { return !drop_reasons_.empty(); }

  /// Records that found no room, by st_loss_source, since load.
  [[nodiscard]] std::vector<uint64_t> losses() const;
  /// Every kind of evidence, and how this kernel gives it.
  [[nodiscard]] const std::vector<EvidenceChoice>& evidence() const { return evidence_; }
  [[nodiscard]] const KernelFeatures& features() const { return features_; }
  /// With KernelOptions::report_programs: what the verifier said of each program.
  [[nodiscard]] const std::vector<ProgramReport>& program_reports() const;
  /// File descriptors that the probes hold.
  [[nodiscard]] size_t probe_descriptors() const;
  /// Ticks per second of the kernel's jiffies, measured.
  [[nodiscard]] int64_t ticks_per_second() const { return ticks_per_second_; }

 private:
  BpfPrograms();
  Refusals attach_hooks();
  Status open_rings();
  Status fill_call_programs();
  Status watch_threads(pid_t pid);
  Result<UniqueFd> probe(const std::string& path, const ProbePoint& point, bool at_return);

  struct Object;
  std::unique_ptr<Object> object_;
  RecordVisitor const* visitor_ = nullptr;  // during consume()
  size_t budget_ = 0;                       // records of the ring that is being consumed
  std::vector<EvidenceChoice> evidence_;
  KernelFeatures features_;
  std::vector<std::string> drop_reasons_;  // by number; empty: not recorded, or none of that number
  int64_t ticks_per_second_ = 250;         // the usual, where it can't be measured
};

}  // namespace stalltrace::capture
