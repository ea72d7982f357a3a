// SPDX-License-Identifier: Apache-2.0
// Lines of nccl-tests and rccl-tests output, behind any launcher's prefix. The formats are those of nccl-tests from
// 2019 to 2.19 (PRINT in src/common.cu and src/util.cu there). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stalltrace::import {

/// One group of columns: out of place or in place.
struct BenchmarkNumbers {
  double time_us = 0;
  double algbw_gbs = 0;
  double busbw_gbs = 0;
  std::optional<int64_t> wrong;  // "#wrong"; none: "N/A", or an old version's "error", which is a difference of sums
};

struct BenchmarkRow {
  int64_t bytes = 0;
  int64_t count = 0;
  std::string_view datatype;
  std::string_view reduce_op;  // empty: none
  std::optional<int32_t> root;
  std::optional<BenchmarkNumbers> out_of_place;
  std::optional<BenchmarkNumbers> in_place;
  std::string_view time;  // "2026-05-05 10:00:00"; empty: the table has none
};

/// The columns of a table, from its header line.
struct BenchmarkColumns {
  bool has_root = true;
  bool timed = false;                                                  // a time ends each row
  std::vector<std::string> group{"time", "algbw", "busbw", "#wrong"};  // of which there are two
};

/// "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: ...": a run begins.
struct BenchmarkStart {
  int64_t most_bytes = 0;
};
/// "# Collective test starting: all_reduce_perf", or a command line that has such a program.
struct BenchmarkName {
  std::string_view test;
};
/// "#  Rank  3 Group  0 Pid   6899 on node0 device  3 [...] ..."
struct BenchmarkRank {
  int32_t rank = 0;
  std::string_view host;
};
/// "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 48.3": a run's summary.
struct BenchmarkEnd {
  bool failed = false;
  bool last = false;  // the last of these lines
};
/// "node0: Test NCCL failure common.cu:958 '...'"
struct BenchmarkProblem {
  std::string_view text;
};
/// A row of which a part is missing or is no number.
struct BrokenRow {};

using BenchmarkLine = std::variant<std::monostate, BenchmarkColumns, BenchmarkRow, BenchmarkStart, BenchmarkName,
                                   BenchmarkRank, BenchmarkEnd, BenchmarkProblem, BrokenRow>;
/// Rows are read by `columns`, those of the last header. Views point into `line`.
BenchmarkLine read_benchmark_line(std::string_view line, const BenchmarkColumns& columns);

/// "all_reduce_perf" in "mpirun ... /opt/all_reduce_perf -b 8"; empty: none of the tests.
std::string_view test_name_in(std::string_view text);

/// True for a line that nothing but nccl-tests writes.
bool is_benchmark_line(std::string_view line);

}  // namespace stalltrace::import
