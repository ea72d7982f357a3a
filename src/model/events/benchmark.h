// SPDX-License-Identifier: Apache-2.0
// Results of benchmarks of collectives (nccl-tests). They are no calls of a job: nothing judges them by time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "model/events/event_traits.h"
#include "model/events/ids.h"

namespace stalltrace {

/// One start of a benchmark. `run` counts from 1 within its node, which is a file.
struct BenchmarkRun {
  NodeId node_id = 0;
  int32_t run = 0;
  int64_t started_ns = 0;  // the time of its file, where it has none of its own
  std::string test;        // "all_reduce_perf"; empty: not stated
  int32_t nranks = 0;      // 0: not stated
  std::string hosts;       // separated by blanks, in order of ranks; empty: not stated
  int64_t most_bytes = 0;  // the largest size that was asked for; 0: not stated
  bool ended = false;      // its summary is there
  bool failed = false;     // its summary says FAILED, or it reported a failure
  std::string problem;     // the first failure that it reported
  int64_t line = 0;        // of its beginning, from 1; 0: the file has no lines
  std::string file;
};

/// A size's result, out of place or in place. Bandwidths by nccl-tests' definitions (doc/PERFORMANCE.md there).
struct BenchmarkResult {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  int32_t run = 0;
  int64_t bytes = 0;
  int64_t count = 0;            // elements
  std::string datatype;         // as printed: "float"
  std::string reduce_op;        // as printed: "sum", "none"
  std::optional<int32_t> root;  // none: the operation has none
  bool in_place = false;
  double time_us = 0;    // of one operation, on average
  double algbw_gbs = 0;  // 10^9 bytes a second
  double busbw_gbs = 0;
  std::optional<int64_t> wrong;  // elements; none: not checked
  int64_t line = 0;
};

template <>
struct EventTraits<BenchmarkRun> : StateTraits<BenchmarkRun> {
  static constexpr std::string_view kTable = "benchmark_run";
  static auto key(const BenchmarkRun& row) { return std::tuple(row.node_id, row.run); }
  static int64_t begin_ns(const BenchmarkRun& row) { return row.started_ns; }
  static int64_t end_ns(const BenchmarkRun& /*row*/) { return kForever; }
};

template <>
struct EventTraits<BenchmarkResult> : StreamTraits<BenchmarkResult, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "benchmark_result";
};

inline constexpr TypeList<BenchmarkRun> kBenchmarkRunTypes;
inline constexpr TypeList<BenchmarkResult> kBenchmarkResultTypes;

}  // namespace stalltrace
