// SPDX-License-Identifier: Apache-2.0
// Calls of the collective libraries, and the CUDA graphs that may run them.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "model/events/event_traits.h"
#include "model/events/ids.h"
#include "model/operation.h"

namespace stalltrace {

/// One call by one rank. Sent at entry (completion open), and again when more is known.
struct Collective {
  EventId event_id = 0;
  NodeId node_id = 0;
  Library library = Library::kNccl;
  Operation op = Operation::kAllReduce;
  /// Arrival: entry of the call, or of the outermost ncclGroupEnd for a call inside a group.
  int64_t timestamp_ns = 0;
  std::optional<int64_t> duration_ns;  // arrival to completion, the best known value; none while open
  std::optional<int64_t> launch_ns;    // only the call on the CPU; none until it has returned
  Completion completion = Completion::kOpen;
  /// n-th collective of this rank on this communicator, from 0. For Send/Recv the n-th to or from that peer.
  std::optional<int64_t> seq;
  std::optional<int32_t> rank;  // in the communicator; in the job if rank_source is environment
  RankSource rank_source = RankSource::kUnknown;
  std::optional<int32_t> nranks;
  CommHash comm_id_hash = 0;
  uint64_t comm_ptr = 0;
  int32_t pid = 0;
  int32_t tid = 0;
  uint64_t cgroup_id = 0;
  std::optional<int64_t> count;     // elements, as passed
  std::optional<int32_t> datatype;  // the library's own number
  int64_t bytes = 0;                // payload_bytes
  std::optional<int32_t> reduce_op;
  std::optional<int32_t> root;
  std::optional<int32_t> peer;
  uint64_t stream = 0;
  uint64_t group_id = 0;  // 0: not in a group
  std::optional<int32_t> return_code;
  int64_t stack_id = 0;
  int64_t called_ns = 0;  // entry of the call itself; differs from timestamp_ns inside a group
  /// The device's kernel, where the library's profiler reports it: when the host saw its start, and that plus the time
  /// that the device measured. None: not started (or not ended) yet, or not reported.
  std::optional<int64_t> kernel_start_ns;
  std::optional<int64_t> kernel_end_ns;

  /// Completion time; none while open, or if it was not observed.
  [[nodiscard]] std::optional<int64_t> end_ns() const {
    return duration_ns ? std::optional(timestamp_ns + *duration_ns) : std::nullopt;
  }
  /// The newest known time; none while open. The end of the launch if the completion was not observed, or the call was
  /// captured.
  [[nodiscard]] std::optional<int64_t> known_end_ns() const {
    return completion == Completion::kUnobserved || completion == Completion::kCaptured
               ? std::optional(timestamp_ns + launch_ns.value_or(0))
               : end_ns();
  }
};

/// What graphs launch on a communicator is on a communicator of its own: `comm_ptr` is the profiler file's number of
/// the communicator and this bit, which no address has.
inline constexpr uint64_t kGraphCommunicator = uint64_t{1} << 62;
/// What may be a graph's launch or a call beside it: as above, without a name.
inline constexpr uint64_t kUncertainCommunicator = uint64_t{1} << 61;
inline bool is_graph_communicator(uint64_t comm_ptr) {
  return (comm_ptr & kGraphCommunicator) != 0 && comm_ptr >> 63 == 0;
}

/// What a process did with CUDA graphs: one row, sent again when more is known.
struct GraphUse {
  NodeId node_id = 0;
  int32_t pid = 0;
  int64_t start_ns = 0;  // of the process
  int64_t captured = 0;  // calls that move data and were captured into graphs, or may have been
  int64_t launches = 0;  // of graphs, as far as seen
  std::optional<int64_t> first_launch_ns;
  std::optional<int64_t> last_launch_ns;
};

template <>
struct EventTraits<Collective> : StreamTraits<Collective, TableKind::kEvents> {
  static constexpr std::string_view kTable = "collective";
  static auto key(const Collective& row) { return row.event_id; }
  /// An unobserved completion ends with the launch, and so does a captured call: no later row will report more.
  static int64_t end_ns(const Collective& row) { return row.known_end_ns().value_or(kForever); }
};

template <>
struct EventTraits<GraphUse> : StateTraits<GraphUse> {
  static constexpr std::string_view kTable = "graph_use";
  static auto key(const GraphUse& row) { return std::tuple(row.node_id, row.pid, row.start_ns); }
  static int64_t begin_ns(const GraphUse& row) { return row.start_ns; }
  static int64_t end_ns(const GraphUse& /*row*/) { return kForever; }
};

inline constexpr TypeList<Collective> kCollectiveTypes;
inline constexpr TypeList<GraphUse> kGraphTypes;

}  // namespace stalltrace
