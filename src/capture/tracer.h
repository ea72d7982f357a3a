// SPDX-License-Identifier: Apache-2.0
// A live host → events. Loads the kernel side, finds the job, turns records into events and passes them to a sink until
// asked to stop. Everything runs on the thread that calls run().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"
#include "base/untrusted/untrusted_file.h"
#include "capture/decode/open_waits.h"
#include "capture/decode/record_decoder.h"
#include "capture/discover/job_discovery.h"
#include "capture/discover/mapping_watch.h"
#include "capture/host/clock_reader.h"
#include "capture/host/host_sampler.h"
#include "capture/kernel/bpf_programs.h"
#include "capture/kernel/kernel_options.h"
#include "capture/periodic_tasks.h"
#include "capture/python/python_stacks.h"
#include "capture/reading_budget.h"
#include "model/events.h"

namespace stalltrace::capture {

struct TracerOptions {
  std::string node_name;               // empty: as capture::node_name decides
  std::vector<int32_t> pids;           // trace only these and their descendants; empty: every job on the host
  std::vector<std::string> libraries;  // probed immediately, besides those in the usual folders
  TrustedOwners trusted_owners;        // besides root and each process's own user
  bool own_netns = false;              // only processes in our own network namespace
  std::string sysfs_root = "/sys";     // root of the port counters' folders
  std::optional<int64_t> duration_ns;  // nullopt: until stopped
  CommandLines commands = CommandLines::kRedacted;  // applies to recorded environment variables too
  KernelOptions kernel;                             // its scope is set from the fields above
};

struct TracerStats {
  size_t processes = 0;
  size_t libraries = 0;
  uint64_t calls = 0;
  uint64_t retransmits = 0;
  uint64_t lost = 0;
  int64_t elapsed_ns = 0;
  std::optional<int64_t> left_ns;
};

class Tracer {
 public:
  /// Called between batches of events, at most every quarter of a second, to write them to the recording.
  using Flush = std::function<Status()>;
  /// Called about once a second.
  using Progress = std::function<void(const TracerStats&)>;
  /// Called with each failure, once for each text.
  using Note = std::function<void(const std::string&)>;

  /// Loads and attaches; once it returns, calls are recorded. `sink` must outlive the tracer. Errors: no privilege, no
  /// BTF, a process in `pids` that does not exist.
  static Result<std::unique_ptr<Tracer>> create(const TracerOptions& options, EventSink& sink, Note note);
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Gives up the capabilities of this process that the trace needs no more (privileges.h). Before threads are started:
  /// one that is there keeps its own, which is reported.
  void give_up_privileges();

  /// Runs until the duration is over or one of `stop_descriptors` becomes readable; then delivers remaining events.
  /// Sets the calling thread to SCHED_BATCH, so that it preempts no other.
  Status run(const std::vector<int>& stop_descriptors, const Flush& flush, const Progress& progress);

  /// A finding was reported: run() reads the stacks of ranks without progress as soon as possible (`python_stack`).
  void ask_for_stacks() { python_stacks_.ask(); }

  [[nodiscard]] TracerStats stats() const;
  [[nodiscard]] const Node& node() const { return node_; }
  /// The evidence that this kernel does not give: one line each, with the reason.
  [[nodiscard]] std::vector<std::string> missing_evidence() const;

 private:
  Tracer(const TracerOptions& options, EventSink& sink, Note note, std::unique_ptr<BpfPrograms> kernel);
  Status begin();
  [[nodiscard]] std::vector<PeriodicTask> periodic_tasks(int64_t started_ns, const Flush& flush,
                                                         const Progress& progress);
  void report_once(const std::string& text);
  void on_call(pid_t pid, uint32_t user);
  bool begin_process(pid_t pid, Library library, uint64_t mpi_world);
  void end_processes(const std::vector<st_exit>& records);
  void lost_exits(std::span<const pid_t> pids);
  void forget_process(pid_t pid);
  /// A reading of the processes of one user.
  struct Reading {
    bool early = false;
    uint32_t user = 0;
    auto operator<=>(const Reading&) const = default;
  };
  using Readings = std::map<Reading, std::set<pid_t>>;
  [[nodiscard]] Readings due_readings(const ReadingBudget& budget, bool last) const;
  void sample_all_sockets(int64_t idle_before_ns, bool last);
  void consume();
  void consume_with_ends();
  void collect();
  void look_for_jobs();
  void scan();
  void sample_sockets(const std::set<pid_t>& pids, int64_t idle_before_ns);
  void deliver_open_waits(uint64_t at_least_ns, bool last);
  void deliver_drops();
  void deliver_losses();
  void watch_descriptors();
  void deliver_rest();

  TracerOptions options_;
  EventSink& sink_;
  Note note_;
  std::set<std::string> reported_;
  std::unique_ptr<BpfPrograms> kernel_;
  Node node_;
  Procfs procfs_;
  RecordDecoder decoder_;
  PythonStacks python_stacks_;
  OpenWaits open_waits_;
  HostSampler host_;
  ClockReader clocks_;
  JobDiscovery discovery_;
  std::unique_ptr<MappingWatch> mappings_;  // null where perf events are refused
  std::set<pid_t> alive_;
  std::map<pid_t, uint64_t> starts_;     // in clock ticks since boot; of those alive, and those that were not admitted
  std::pair<pid_t, uint32_t> caller_{};  // the latest of on_call(): it may be gone before it is looked at
  ReadingBudget socket_readings_;
  ReadingBudget thread_readings_;
  bool consuming_ = false;
  bool some_ended_ = false;  // since the last scan
  bool ticks_are_ours_;      // /proc counts time from the same moment as the kernel side
  uint64_t lost_mappings_ = 0;
  uint64_t scanned_lost_ = 0;  // lost_mappings_ at the last scan
  uint64_t lost_ = 0;
};

}  // namespace stalltrace::capture
