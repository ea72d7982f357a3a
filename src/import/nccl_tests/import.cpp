// SPDX-License-Identifier: Apache-2.0
// Outputs of nccl-tests as events: a file is a node, which has no calls.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "import/evidence.h"
#include "import/file_node.h"
#include "import/lines.h"
#include "import/nccl_tests/json_report.h"
#include "import/nccl_tests/table.h"
#include "import/read_files.h"
#include "model/events/imported_evidence.h"
#include "model/parse/log_time.h"

namespace stalltrace::import {
namespace {

constexpr size_t kMostRuns = 4096;         // of a file
constexpr int64_t kMostResults = 200'000;  // of a file
constexpr size_t kLongestProblem = 240;
constexpr size_t kLongestHosts = 16'384;
constexpr size_t kLongestName = 64;
constexpr size_t kLargestReport = size_t{64} << 20;
constexpr size_t kHeadBytes = 4096;
constexpr int32_t kMostRanks = 1 << 20;

class Import {
 public:
  Import(EventSink& sink, const Note& note) : sink_(sink), note_(note) {}

  Status read(const std::string& path) {
    ST_ASSIGN(LineReader lines, LineReader::open(path));
    ST_ASSIGN(const std::string head, read_file(path, kHeadBytes));
    path_ = path;
    node_ = nodes_.make(path, "nccl_tests");
    runs_.clear();
    columns_ = {};
    name_ = std::string(test_name_in(node_.name));
    results_ = damaged_ = first_damaged_ = left_out_ = 0;
    last_ns_ = node_.started_ns;
    if (is_benchmark_report(head)) {
      ST_TRY(read_report());
      finish();
      return {};
    }
    take_lines(lines, path, note_, [&](const Line& line, std::string_view text) { take(line, text); });
    finish();
    return {};
  }

  void refuse(const std::string& path) {
    Node node = nodes_.make(path, "nccl_tests");
    node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
    sink_.accept(Loss{node.node_id, "benchmark:unreadable_file", 1});
    sink_.accept(std::move(node));
  }

  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  struct Run {
    BenchmarkRun row;
    bool has_table = false;
    std::string last_host;
    std::set<std::string, std::less<>> known_hosts;
  };

  Status read_report() {
    ST_ASSIGN(std::string bytes, read_whole(path_, kLargestReport));
    begin_run(0);
    auto report = read_benchmark_report(
        std::move(bytes), [&](const BenchmarkRank& rank) { take_rank(runs_.back(), rank); },
        [&](const BenchmarkRow& row) { take_row(Line{}, row); });
    if (!report) {
      return with_context(path_, std::move(report.error()));
    }
    BenchmarkRun& run = runs_.back().row;
    run.test = report->test.empty() ? run.test : report->test;
    run.started_ns = std::max<int64_t>(find_time(report->started, {last_ns_, true}).value_or(last_ns_), 0);
    run.most_bytes = report->most_bytes;
    run.ended = report->ended;
    run.failed = report->failed;
    run.problem = report->problem.substr(0, kLongestProblem);
    damaged_ = report->damaged;
    if (!report->cut.empty()) {
      ++damaged_;
      note_(fmt::format("{}: {}; what was before is kept", path_, report->cut));
    }
    return {};
  }

  BenchmarkRun& begin_run(int64_t line) {
    if (runs_.size() == kMostRuns) {
      ++left_out_;
      return runs_.back().row;
    }
    Run& run = runs_.emplace_back();
    run.row.node_id = node_.node_id;
    run.row.run = static_cast<int32_t>(runs_.size());
    run.row.started_ns = node_.started_ns;
    run.row.test = name_.substr(0, kLongestName);
    run.row.line = line;
    run.row.file = path_;
    return run.row;
  }

  /// The run that a line belongs to, as far as it has begun.
  Run& current(int64_t line) {
    if (runs_.empty()) {
      begin_run(line);
    }
    return runs_.back();
  }

  void take(const Line& line, std::string_view text) {
    BenchmarkLine read = read_benchmark_line(text, columns_);
    if (auto* columns = std::get_if<BenchmarkColumns>(&read)) {
      if (runs_.empty() || runs_.back().has_table) {
        begin_run(line.number);
      }
      runs_.back().has_table = true;
      columns_ = std::move(*columns);
    } else if (const auto* row = std::get_if<BenchmarkRow>(&read)) {
      take_row(line, *row);
    } else if (const auto* start = std::get_if<BenchmarkStart>(&read)) {
      begin_run(line.number).most_bytes = start->most_bytes;
    } else if (const auto* name = std::get_if<BenchmarkName>(&read)) {
      name_ = std::string(test_name_in(name->test));
      name_ = name_.empty() ? std::string(name->test.substr(0, kLongestName)) : name_;
    } else if (const auto* rank = std::get_if<BenchmarkRank>(&read)) {
      take_rank(current(line.number), *rank);
    } else if (const auto* end = std::get_if<BenchmarkEnd>(&read)) {
      BenchmarkRun& run = current(line.number).row;
      run.failed = run.failed || end->failed;
      run.ended = run.ended || end->last;
    } else if (const auto* problem = std::get_if<BenchmarkProblem>(&read)) {
      BenchmarkRun& run = current(line.number).row;
      run.failed = true;
      run.problem = run.problem.empty() ? std::string(problem->text.substr(0, kLongestProblem)) : run.problem;
    } else if (std::holds_alternative<BrokenRow>(read)) {
      first_damaged_ = damaged_++ == 0 ? line.number : first_damaged_;
    }
  }

  static void take_rank(Run& run, const BenchmarkRank& rank) {
    run.row.nranks = std::max(run.row.nranks, std::min(rank.rank, kMostRanks) + 1);
    if (rank.host == run.last_host || run.row.hosts.size() + rank.host.size() >= kLongestHosts) {
      return;
    }
    run.last_host = std::string(rank.host);
    if (run.known_hosts.insert(run.last_host).second) {
      run.row.hosts += fmt::format("{}{}", run.row.hosts.empty() ? "" : " ", rank.host);
    }
  }

  void take_row(const Line& line, const BenchmarkRow& row) {
    Run& run = current(line.number);
    if (!row.time.empty()) {
      last_ns_ = std::max<int64_t>(find_time(row.time, {last_ns_, false}).value_or(last_ns_), 0);
    }
    for (const bool in_place : {false, true}) {
      const auto& numbers = in_place ? row.in_place : row.out_of_place;
      if (!numbers) {
        continue;
      }
      if (results_ >= kMostResults) {
        ++left_out_;
        continue;
      }
      ++results_;
      sink_.accept(BenchmarkResult{.node_id = node_.node_id,
                                   .timestamp_ns = last_ns_,
                                   .run = run.row.run,
                                   .bytes = row.bytes,
                                   .count = row.count,
                                   .datatype = std::string(row.datatype),
                                   .reduce_op = std::string(row.reduce_op.substr(0, kLongestName)),
                                   .root = row.root,
                                   .in_place = in_place,
                                   .time_us = numbers->time_us,
                                   .algbw_gbs = numbers->algbw_gbs,
                                   .busbw_gbs = numbers->busbw_gbs,
                                   .wrong = numbers->wrong,
                                   .line = line.number});
    }
  }

  void finish() {
    if (first_damaged_ > 0) {
      note_(fmt::format("{}: {} damaged (cut off, mixed up, or no numbers), the first is line {}", path_,
                        count_of(damaged_, "row"), first_damaged_));
    }
    node_.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
    node_.ended_ns = std::max(node_.started_ns, last_ns_);
    for (const auto& [source, count] :
         {std::pair("benchmark:damaged_rows", damaged_), std::pair("benchmark:results_not_kept", left_out_)}) {
      if (count > 0) {
        sink_.accept(Loss{node_.node_id, source, static_cast<uint64_t>(count)});
      }
    }
    sink_.accept(node_);
    for (Run& run : runs_) {
      sink_.accept(std::move(run.row));
    }
    ++summary_.files;
    ++summary_.nodes;
    summary_.rows += static_cast<uint64_t>(results_);
  }

  EventSink& sink_;
  const Note& note_;
  Summary summary_;
  FileNodes nodes_;
  // Of the file that is being read:
  std::string path_;
  Node node_;
  std::vector<Run> runs_;
  BenchmarkColumns columns_;
  std::string name_;  // of the next run
  int64_t results_ = 0;
  int64_t damaged_ = 0;
  int64_t first_damaged_ = 0;
  int64_t left_out_ = 0;
  int64_t last_ns_ = 0;
};

}  // namespace

Result<Summary> import_nccl_tests(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                  const Options& /*options*/) {
  Import import(sink, note);
  ST_TRY(read_files(import, paths, note, "no nccl-tests output"));
  return import.summary();
}

}  // namespace stalltrace::import
