// SPDX-License-Identifier: Apache-2.0
// What a profiler's trace of one rank shows (torch.profiler): how much of its time was computation and communication.
// The calls in it are no rows of Collective: nothing judges them by their order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "model/events/event_traits.h"
#include "model/events/ids.h"

namespace stalltrace {

/// One trace: a file, which is a node. Times are unions of intervals: what overlaps counts once.
struct TraceProfile {
  NodeId node_id = 0;
  int64_t started_ns = 0;  // of the part that was measured; the time of the file, where the trace has no time of day
  int64_t duration_ns = 0;
  std::optional<int32_t> rank;
  std::optional<int32_t> world_size;
  std::string backend;           // "nccl", "gloo"; empty: not stated
  bool on_device = false;        // times are of the device's kernels; else of operators on the CPU
  int64_t compute_ns = 0;        // kernels (operators) that are no communication
  int64_t communication_ns = 0;  // kernels (operations) of the collective library
  int64_t overlap_ns = 0;        // both at once
  int64_t copy_ns = 0;           // copies and fills by the device
  int64_t idle_ns = 0;           // nothing of these
  int64_t steps = 0;
  int64_t kernels = 0;  // or operators
  std::string file;
};

/// One step ("ProfilerStep#12") of a trace.
struct TraceStep {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  int64_t duration_ns = 0;
  int64_t step = 0;
  int64_t compute_ns = 0;
  int64_t communication_ns = 0;
  int64_t overlap_ns = 0;
  int64_t idle_ns = 0;
};

/// Calls of one collective operation in a trace that have one group and one size: those of a DDP bucket, for example.
struct TraceCollective {
  NodeId node_id = 0;
  int32_t number = 0;               // in its trace, from 1, in the order of first calls
  std::string op;                   // "all_reduce"; as printed where it is not known
  std::string process_group;        // process group; empty: not stated
  std::string datatype;             // as printed: "Float"; empty: not stated
  std::optional<int64_t> elements;  // of this rank's input; none: not stated
  std::optional<int32_t> ordinal;   // which one in its step, from 1, where sizes are not stated
  int64_t calls = 0;
  int64_t total_ns = 0;
  int64_t exposed_ns = 0;  // while nothing was computed
  int64_t shortest_ns = 0;
  int64_t longest_ns = 0;
};

template <>
struct EventTraits<TraceProfile> : StateTraits<TraceProfile> {
  static constexpr std::string_view kTable = "trace_profile";
  static auto key(const TraceProfile& row) { return row.node_id; }
  static int64_t begin_ns(const TraceProfile& row) { return row.started_ns; }
  static int64_t end_ns(const TraceProfile& /*row*/) { return kForever; }
};

template <>
struct EventTraits<TraceStep> : StreamTraits<TraceStep, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "trace_step";
};

template <>
struct EventTraits<TraceCollective> : StateTraits<TraceCollective> {
  static constexpr std::string_view kTable = "trace_collective";
  static auto key(const TraceCollective& row) { return std::tuple(row.node_id, row.number); }
  static int64_t begin_ns(const TraceCollective& /*row*/) { return 0; }
  static int64_t end_ns(const TraceCollective& /*row*/) { return kForever; }
};

inline constexpr TypeList<TraceProfile, TraceCollective> kTraceProfileTypes;
inline constexpr TypeList<TraceStep> kTraceStepTypes;

}  // namespace stalltrace
