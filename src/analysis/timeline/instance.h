// SPDX-License-Identifier: Apache-2.0
// One instance: the calls of all ranks under one sequence number, and its division into the wait for the last rank and
// the transfer.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

struct Arrival {
  int64_t arrival_ns = 0;     // of its device, where the devices of all ranks report it (Instance::by_device)
  int64_t called_ns = 0;      // of its CPU
  int64_t end_ns = kForever;  // also kForever if the end is not reported
  uint32_t sequence = 0;
  bool open = false;
  BatchPart batch = BatchPart::kNone;
};

struct Instance {
  uint32_t group = 0;
  int64_t number = 0;
  uint16_t signature = 0;
  bool signatures_differ = false;  // the ranks' calls differ in signature
  bool hung = false;               // a rank is inside and nothing after it ended
  int64_t hung_to_ns = 0;          // if hung: the last time at which a rank was observed inside; kForever: to the end
  std::vector<Arrival> seen;       // by arrival
  std::vector<uint32_t> absent;    // sequences that did not enter it although others wait (hung only)
  int64_t waits_from_ns = 0;       // the middle arrival of the others: from here on the job waits for the last rank
  int64_t last_arrival_ns = 0;
  /// It ended, and the starts of all ranks' kernels are known: these are the arrivals. CPUs run ahead of their devices.
  bool by_device = false;
  int64_t completion_ns = kForever;
  /// Of the calls of most ranks. kInside: when it was done is not known of any of them, completion_ns is that of what
  /// came later. kLast: completion_ns is that of the ranks for which it is the last.
  BatchPart batch = BatchPart::kNone;

  [[nodiscard]] int64_t late_ns() const { return last_arrival_ns - waits_from_ns; }
  [[nodiscard]] bool completed() const { return completion_ns != kForever; }
  [[nodiscard]] int64_t transfer_ns() const { return completed() ? completion_ns - last_arrival_ns : 0; }
};

struct NumberRange {
  int64_t begin = 0;
  int64_t end = 0;
};
/// The numbers in which the group's sequences have calls: disjoint, ascending.
std::vector<NumberRange> numbers_of_instances(const Timeline& timeline, const Group& group);

/// Fills `out` (reused between calls); false if no rank took part, or if a rank captured its call into a CUDA graph and
/// none is inside of it.
bool read_instance(const Timeline& timeline, uint32_t group, int64_t number, Instance& out);

/// From this many ranks on two threads read instances, some together: one of 8,192 ranks takes 0.7 ms (2026-11-27).
inline constexpr size_t kManyRanks = 1024;
inline constexpr size_t kReadTogether = 4;
using InstancesRead = std::array<bool, kReadTogether>;  // what read_instance() returned for each
/// Fills `out`, of kReadTogether elements at most, with the instances from `number` on.
InstancesRead read_together(const Timeline& timeline, uint32_t group, int64_t number, std::span<Instance> out);

/// Reads every instance of the group into `instance`, in order, and calls `visit` after each.
template <typename Visit>
void for_each_instance(const Timeline& timeline, uint32_t group, Instance& instance, Visit visit) {
  const bool many = timeline.groups()[group].sequences.size() >= kManyRanks;
  std::vector<Instance> some(many ? kReadTogether : 0);
  for (const NumberRange& numbers : numbers_of_instances(timeline, timeline.groups()[group])) {
    for (int64_t number = numbers.begin; number < numbers.end;) {
      if (!many) {
        if (read_instance(timeline, group, number++, instance)) {
          visit();
        }
        continue;
      }
      const auto count = static_cast<size_t>(std::min<int64_t>(kReadTogether, numbers.end - number));
      const InstancesRead read = read_together(timeline, group, number, std::span(some).first(count));
      number += static_cast<int64_t>(count);
      for (size_t i = 0; i < count; ++i) {
        if (read[i]) {
          std::swap(instance, some[i]);
          visit();
        }
      }
    }
  }
}

}  // namespace stalltrace::analysis
