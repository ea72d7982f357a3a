// SPDX-License-Identifier: Apache-2.0
// A live host → events. Loads the kernel side, finds the job, turns records into events and hands them to a sink, until
// asked to stop. Everything happens on the thread that calls run().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "capture/kernel/kernel_options.h"
#include "model/events.h"

namespace stalltrace::capture {

struct TracerOptions {
  std::string node_name;               // empty: see capture::node_name
  std::vector<int32_t> pids;           // trace only these and their descendants; empty: every job on the host
  std::vector<std::string> libraries;  // probed at once, besides those in the usual places
  bool own_netns = false;              // only processes in our own network namespace
  std::string sysfs_root = "/sys";     // where port counters are read
  std::optional<int64_t> duration_ns;  // none: until stopped
  KernelOptions kernel;                // its scope is set from the above
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
  /// Called between batches of events, at most every quarter of a second: the place to write them down.
  using Flush = std::function<Status()>;
  /// Called about once a second.
  using Progress = std::function<void(const TracerStats&)>;
  /// Called with what could not be done, once for each text.
  using Note = std::function<void(const std::string&)>;

  /// Loads and attaches; after this, calls are seen. `sink` outlives the tracer. Errors: no privilege, no BTF, a
  /// process in `pids` that does not exist.
  static Result<std::unique_ptr<Tracer>> create(const TracerOptions& options, EventSink& sink, Note note);
  virtual ~Tracer() = default;

  /// Runs until the duration is over or one of `stop_descriptors` becomes readable; then delivers what is left. The
  /// calling thread becomes one that preempts nobody (SCHED_BATCH).
  virtual Status run(const std::vector<int>& stop_descriptors, const Flush& flush, const Progress& progress) = 0;

  [[nodiscard]] virtual TracerStats stats() const = 0;
  [[nodiscard]] virtual const Node& node() const = 0;
  /// The evidence that this kernel does not give, one line each: what it is, and why.
  [[nodiscard]] virtual std::vector<std::string> missing_evidence() const = 0;
};

}  // namespace stalltrace::capture
