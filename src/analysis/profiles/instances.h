// SPDX-License-Identifier: Apache-2.0
// Instances in numbers: the slowest ones, and those that ranks were inside at one time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/evidence/wait_graph.h"
#include "analysis/profiles/job_view.h"
#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

struct InstanceTimes {
  uint32_t group = 0;
  int64_t number = 0;
  CommHash hash = 0;               // 0: its communicator was made before tracing began
  std::optional<int64_t> attempt;  // of the job, from 1; none: not known
  Operation op = Operation::kAllReduce;
  std::optional<int64_t> bytes;     // none: not known
  size_t ranks = 0;                 // that entered it
  std::vector<MemberIndex> absent;  // ranks that have not come although others wait, if it hangs
  MemberIndex last = kNoMember;     // the last to arrive
  uint32_t last_sequence = 0;       // its call sequence
  int64_t first_arrival_ns = 0;
  int64_t last_arrival_ns = 0;
  int64_t late_ns = 0;                 // from the middle arrival of the others to the last
  std::optional<int64_t> transfer_ns;  // none: its end is not known
  bool hung = false;                   // a rank is inside, and nothing after it ended
  bool warming_up = false;             // among the first of its communicator
  int64_t total_ns = 0;                // from the first arrival to the end; to the last observation if it hangs
};

enum class InstanceOrder : uint8_t { kTotal, kLate, kTransfer };

struct InstanceFilter {
  TimeRange range;  // in which the instance was under way
  std::optional<CommHash> hash;
  std::optional<Operation> op;
  std::optional<int32_t> last_rank;
};

struct SlowestInstances {
  std::vector<InstanceTimes> instances;  // the slowest first
  int64_t matched = 0;                   // instances that the filter takes
};

/// The first `most` by `order`; by the transfer, only those with a known one.
SlowestInstances slowest_instances(const JobView& job, const InstanceFilter& filter, InstanceOrder order, size_t most);

/// An instance that ranks were inside at some time.
struct OpenInstance {
  InstanceTimes times;
  struct Inside {
    MemberIndex member = kNoMember;
    int64_t since_ns = 0;
  };
  struct Later {
    MemberIndex member = kNoMember;
    std::optional<int64_t> arrival_ns;  // none: never, as far as recorded
  };
  std::vector<Inside> inside;  // by arrival
  std::vector<Later> awaited;  // ranks that had not arrived then
};

/// What connections and NCCL's steps show of a transfer.
struct TransferWaits {
  WaitGraph graph;
  Interval window{0, 0};  // the part of the transfer that was looked at
};

struct WaitsAtTime {
  std::vector<OpenInstance> instances;  // the longest open first
  int64_t uncertain = 0;                // earlier instances with calls whose end was not reported: left out
  /// Ranks that others wait for and that are inside no instance themselves: each chain of waits ends at one. Without
  /// those that are awaited only behind an older instance that all its ranks have entered: the transfer comes first.
  std::vector<MemberIndex> held_up_by;
  /// Of the longest open instance that all its ranks have entered and whose ranks were all recorded. None if there is
  /// no such instance: where each waits for ranks, the network idles, and its state shows nothing.
  std::optional<TransferWaits> transfer;
};

/// Who waits for whom at `time_ns`. A transfer is looked at from `half_window_ns` before until as long after.
Result<WaitsAtTime> waits_at(JobView& job, int64_t time_ns, int64_t half_window_ns);

/// The last time at which all ranks that the longest hang holds were observed inside it, for a job that was ended in a
/// hang is inside nothing at its end. Without a hang, the end of the recording.
int64_t last_wait_ns(const JobView& job);

/// True if some time between the first arrival and the end is in `range`.
bool is_under_way(const JobView& job, const Instance& instance, TimeRange range);

/// The times of an instance that read_instance has read.
InstanceTimes times_of(const JobView& job, const Instance& instance);

}  // namespace stalltrace::analysis
