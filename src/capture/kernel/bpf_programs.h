// SPDX-License-Identifier: Apache-2.0
// The BPF programs of this host, loaded and attached. consume() returns records as bytes; capture/decode decodes them.
// Destroying the object detaches everything. Users of this class see nothing of libbpf.
#pragma once

#include <sys/types.h>

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
#include "capture/kernel/kernel_options.h"
#include "capture/kernel/perf_uprobe.h"
#include "capture/kernel/program_report.h"
#include "capture/kernel/programs.h"
#include "capture/probe_points.h"
#include "wire/config.h"
#include "wire/host_drops.h"
#include "wire/scheduler.h"
#include "wire/tcp.h"

namespace stalltrace::capture {

class BpfPrograms {
 public:
  /// Probes of one file.
  enum class ProbeSet : size_t {};
  using RecordVisitor = std::function<void(std::span<const std::byte> record)>;

  /// Loads the programs and attaches all but the probes. Programs that this kernel lacks or refuses are left out, see
  /// `evidence()`. Errors name what is missing (BTF, privilege, a program without which nothing can be traced) and the
  /// remedy.
  static Result<std::unique_ptr<BpfPrograms>> load(const KernelOptions& options);
  ~BpfPrograms();
  BpfPrograms(const BpfPrograms&) = delete;
  BpfPrograms& operator=(const BpfPrograms&) = delete;

  /// Probes a file's functions in every process that maps it now or later. The return probes come first. C++ functions
  /// that may throw get none, since an exception that meets a return probe ends the process.
  Result<ProbeSet> attach_file(const std::string& path, std::span<const ProbePoint> points);

  /// Probes the profiler plugin's marker; from then on the transfers of its connections are followed.
  Result<ProbeSet> attach_marker(const std::string& path, const MarkerPoint& marker);
  /// Probes the functions by which an interpreter prints exceptions.
  Result<ProbeSet> attach_python(const std::string& path, std::span<const PythonPoint> points);
  /// Removes the probes of one attach call.
  void detach(ProbeSet probes);

  /// Starts tracing a process's network and scheduling, until the process ends. A process that has ended is not an
  /// error.
  Status add_process(pid_t pid, uint64_t cgroup_id);
  /// Frees the call counters of processes that no longer exist.
  void remove_sequences_of_the_gone();
  /// With only_listed: puts a process in scope.
  Status list_process(pid_t pid);
  [[nodiscard]] bool is_listed(pid_t pid) const;

  /// Visits the records in the rings, at most about 100,000 of each ring: a flood must not keep the caller from writing
  /// its rows. Never waits.
  void consume(const RecordVisitor& visit);
  /// Readable when a ring should be consumed early.
  [[nodiscard]] std::vector<int> descriptors() const;

  /// Visits every TCP socket of the processes, in whatever network namespace, and ends spans that have been silent
  /// since before `idle_before_ns` (CLOCK_MONOTONIC): their records are then in the ring.
  Status list_sockets(const std::set<pid_t>& pids, uint64_t idle_before_ns,
                      const std::function<void(const st_socket_listing&)>& visit);
  /// Visits the threads of processes that are off the CPU now.
  Status list_threads(const std::set<pid_t>& pids, const std::function<void(const st_thread_listing&)>& visit);

  /// Visits the counts of dropped packets since the last call, and resets them. `reason` is the kernel's name without
  /// its prefix.
  void take_drops(
      const std::function<void(const st_drop_key& key, const st_drops& sum, const std::string& reason)>& visit);
  /// Whether each listing walks all processes of the host: one for all is better than one for each user.
  [[nodiscard]] bool walks_all_tasks() const;
  /// Whether dropped packets are counted here.
  [[nodiscard]] bool counts_drops() const { return !drop_reasons_.empty(); }

  /// Records lost for want of room since load, by st_loss_source.
  [[nodiscard]] std::vector<uint64_t> losses() const;
  /// Records and entries refused since load because their user had its share (bpf/user_share.h).
  struct UsersLoss {
    uint32_t user = 0;
    size_t source = 0;  // st_loss_source
    uint64_t count = 0;
  };
  [[nodiscard]] std::vector<UsersLoss> users_losses() const;
  /// Every kind of evidence, with the way in which this kernel gives it.
  [[nodiscard]] const std::vector<EvidenceChoice>& evidence() const { return evidence_; }
  [[nodiscard]] const KernelFeatures& features() const { return features_; }
  /// With KernelOptions::report_programs: the verifier's figures of each program.
  [[nodiscard]] const std::vector<ProgramReport>& program_reports() const;
  /// Number of file descriptors that the probes hold.
  [[nodiscard]] size_t probe_descriptors() const;
  /// Ticks per second of the kernel's jiffies, measured.
  [[nodiscard]] int64_t ticks_per_second() const { return ticks_per_second_; }

 private:
  BpfPrograms();
  Refusals attach_hooks();
  Status open_rings();
  Status fill_call_programs();
  Status watch_threads(pid_t pid);
  Result<UniqueFd> probe(const std::string& path, const UprobeLocation& location, st_call_program slot,
                         uint64_t cookie);

  struct Object;
  std::unique_ptr<Object> object_;
  RecordVisitor const* visitor_ = nullptr;  // during consume()
  size_t budget_ = 0;                       // records left to read from the ring being consumed
  std::vector<EvidenceChoice> evidence_;
  KernelFeatures features_;
  std::vector<std::string> drop_reasons_;  // by number; empty: not recorded, or no such reason
  int64_t ticks_per_second_ = 250;         // the usual value, where it can't be measured
};

}  // namespace stalltrace::capture
