// SPDX-License-Identifier: Apache-2.0
// Applies a run's faults and ends them at their times, and records them for truth.json. The destructor undoes faults
// still in effect. Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/cluster/injection/fault_table.h"
#include "lab/cluster/truth.h"

namespace stalltrace::lab {

/// When a fault acts, in nanoseconds after the job's first step; pure.
struct Schedule {
  int64_t start_ns = 0;
  std::optional<int64_t> end_ns;    // none: to the end of the run
  std::optional<int64_t> pulse_ns;  // acts this long ...
  std::optional<int64_t> every_ns;  // ... once per this

  [[nodiscard]] bool active_at(int64_t time_ns) const;
};

/// The job's progress.
struct JobProgress {
  std::optional<int64_t> since_first_step_ns;  // nullopt: no step yet
  int64_t steps = 0;                           // finished by rank 0
};

class Injector {
 public:
  using Announce = std::function<void(std::string_view)>;

  /// Checks ranks; applies nothing yet. `nodes` (by rank, with the ranks' pids) outlives the injector.
  static Result<Injector> make(std::span<const FaultSpec> specs, std::span<const VirtualNode> nodes, int total_steps,
                               uint64_t seed, Announce announce);

  Injector(Injector&&) = default;
  Injector& operator=(Injector&&) = default;
  ~Injector();

  /// Applies the faults that must be in effect before the ranks start.
  Status prepare();
  /// Applies and ends the faults that are due.
  Status tick(const JobProgress& progress);
  /// Ends all faults; returns the first error.
  Status finish();
  [[nodiscard]] std::vector<FaultTruth> truths() const;

 private:
  struct Planned {
    FaultTruth truth;
    const FaultRow* row = nullptr;
    std::optional<Schedule> schedule;  // known once the start is
    std::optional<AppliedFault> applied;
  };

  Injector() = default;
  void plan(Planned& fault, const JobProgress& progress) const;
  Status begin(Planned& fault);
  Status end(Planned& fault);

  std::vector<Planned> faults_;
  std::span<const VirtualNode> nodes_;
  int total_steps_ = 0;
  Announce announce_;
};

}  // namespace stalltrace::lab
