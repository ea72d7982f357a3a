// SPDX-License-Identifier: Apache-2.0
// A trace of torch.profiler in Chrome's format: an object with "traceEvents" (Kineto), or an array of events (PyTorch
// without Kineto). Names and keys after torch/csrc/profiler and Kineto's output_json.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/byte_stream.h"
#include "import/chrome_trace/coverage.h"

namespace stalltrace::import {

/// What calls of a collective have in common.
struct TraceCall {
  std::string op;
  std::string process_group;
  std::string datatype;
  std::optional<int64_t> elements;
  auto operator<=>(const TraceCall&) const = default;
};

/// Times are ns of the trace's own zero.
struct Trace {
  struct Step {
    int64_t step = 0;
    TimeRange time;
  };
  struct Communication {
    TimeRange time;
    uint32_t call = 0;  // of `calls`
  };
  std::optional<int32_t> rank;
  std::optional<int32_t> world_size;
  std::string backend;
  std::optional<int64_t> zero_ns;  // of the trace's times, in UTC; none: not stated
  bool on_device = false;          // there are kernels
  int64_t kernels = 0;             // or operators
  std::vector<TimeRange> compute;
  std::vector<TimeRange> copies;
  std::vector<Communication> communication;
  std::vector<TraceCall> calls;
  std::vector<Step> steps;  // by begin
  uint64_t not_kept = 0;    // beyond kMostIntervals
  uint64_t damaged = 0;     // events without their times
  std::string problem;      // why it could not be read to its end; empty: it was

  static constexpr size_t kMostIntervals = 3'000'000;
  static constexpr size_t kMostCalls = 256;
  static constexpr size_t kMostSteps = 100'000;
};

/// Reads all of it; what is before damage is kept.
Trace read_trace(ByteStream bytes);

/// "all_reduce" of "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", "gloo:all_reduce", "_allreduce_base"; what it knows
/// no name for is returned as it is.
std::string collective_name(std::string_view text);

/// By the first bytes of the (uncompressed) file.
bool is_chrome_trace(std::string_view head);

}  // namespace stalltrace::import
