// SPDX-License-Identifier: Apache-2.0
// The file that nccl-tests writes with -J (since 2.17; jsonKey in src/util.cu there).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "import/nccl_tests/table.h"

namespace stalltrace::import {

struct BenchmarkReport {
  std::string test;
  std::string started;  // "2026-05-05 10:00:00", in the host's time zone; empty: not stated
  int64_t most_bytes = 0;
  bool ended = false;
  bool failed = false;
  std::string problem;
  int64_t damaged = 0;  // results without their numbers
  std::string cut;      // not empty: why the file could not be read to its end; what was before is here
};

/// Results and ranks go to the functions in the file's order. The error has the offset. Of a file that was cut off, the
/// whole results are read.
Result<BenchmarkReport> read_benchmark_report(std::string bytes, const std::function<void(const BenchmarkRank&)>& rank,
                                              const std::function<void(const BenchmarkRow&)>& row);

/// By the file's first bytes.
bool is_benchmark_report(std::string_view head);

}  // namespace stalltrace::import
