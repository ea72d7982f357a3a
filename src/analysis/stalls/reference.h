// SPDX-License-Identifier: Apache-2.0
// How long calls took in another run of the job, which was right (`explain --like`). A fault that lasts from the first
// instance to the last makes itself usual, and is found only beside such a run.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/stalls/baseline.h"
#include "analysis/timeline/cluster.h"
#include "analysis/timeline/instance.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// What makes instances of two runs comparable. Communicators and instances have other names and numbers in each run.
struct ReferenceClass {
  Operation op = Operation::kAllReduce;
  int64_t bytes = 0;      // CallSignature::bytes
  int32_t ranks = 0;      // of the communicator; 0: not known
  int32_t recorded = 0;   // those whose calls are known
  int32_t hosts = 0;      // that these are on
  uint16_t measured = 0;  // how its ends and arrivals are known
  auto operator<=>(const ReferenceClass&) const = default;

  /// Its instances are the last of batches: what they cost is what their steps took longer.
  [[nodiscard]] bool ends_step() const;
  /// True if the time from the last arrival to the end is the transfer's, or what it costs is bounded by its step. Else
  /// it includes what devices had to do first: CPUs run ahead of them, in each run by another time.
  [[nodiscard]] bool shows_transfers() const;

  /// "AllReduce of 25 MiB among 8 ranks on 4 hosts"
  [[nodiscard]] std::string text() const;
};

/// The steps that a batch of as many calls ended, by the class of its last instance.
using ReferenceStepClass = std::pair<ReferenceClass, int64_t>;

/// The classes of the instances of one run, which must outlive the object.
class ReferenceClasses {
 public:
  ReferenceClasses(const Timeline& timeline, const Cluster& cluster);
  /// Linear in the ranks of the instance.
  [[nodiscard]] ReferenceClass of(const Instance& instance) const;

 private:
  struct Shape {
    int32_t ranks = 0;
    int32_t recorded = 0;
    int32_t hosts = 0;
  };
  const Timeline* timeline_;
  std::vector<Shape> shapes_;  // by group
};

struct ReferenceStep {
  Baseline period;
  std::optional<int64_t> lateness_ns;  // of the rank that is usually the last one in them, by the most; none: not known
};

/// What is usual for a class: the baseline of its instances on one communicator. Of several communicators that have the
/// class, the slowest counts: a run that was right has slower and faster paths.
class Reference {
 public:
  /// Reads every instance once. Memory: a few kilobytes for each class.
  static Reference learn(const Timeline& timeline, const Cluster& cluster);

  /// Null where too few instances of the class are known, or their transfers are not.
  [[nodiscard]] const Baseline* transfer(const ReferenceClass& of) const;
  [[nodiscard]] const ReferenceStep* step(const ReferenceStepClass& of) const;
  /// True if it has the class, but what is measured of its instances is something else.
  [[nodiscard]] bool measured_otherwise(const ReferenceClass& of) const;
  [[nodiscard]] const ReferenceRun& run() const { return run_; }
  void set_files(std::vector<std::string> files) { run_.files = std::move(files); }

 private:
  std::map<ReferenceClass, Baseline> transfers_;
  std::map<ReferenceStepClass, ReferenceStep> steps_;
  ReferenceRun run_;
};

/// How many of the instances that are judged could be compared. At the ends of steps, the steps are.
struct ReferenceUse {
  int64_t comparable = 0;
  int64_t other = 0;
  std::map<ReferenceClass, int64_t> others;  // by class
};

/// "720 of 720 instances have comparable ones in the run given by --like (...)", and why those of the class that most
/// of the others are of have none.
std::string note_on(const ReferenceUse& use, const Reference& reference);

}  // namespace stalltrace::analysis
