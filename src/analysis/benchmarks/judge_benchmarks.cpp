// SPDX-License-Identifier: Apache-2.0
#include "analysis/benchmarks/judge_benchmarks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analysis/thresholds/benchmarks.h"
#include "base/numbers/median.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kRemarksOfAKind = 4;
constexpr size_t kRunsCompared = 256;  // of one test

/// What a curve of bandwidth by size is of.
struct SeriesKey {
  std::string datatype;
  std::string reduce_op;
  std::optional<int32_t> root;
  bool in_place = false;
  auto operator<=>(const SeriesKey&) const = default;
};

std::string describe(const SeriesKey& key) {
  return fmt::format("{}{}{}{}, {}", key.datatype, key.reduce_op.empty() ? "" : " ", key.reduce_op,
                     key.root ? fmt::format(", root {}", *key.root) : "", key.in_place ? "in place" : "out of place");
}

struct Point {
  double time_us = 0;
  double busbw_gbs = 0;
  int64_t line = 0;
};
using Curve = std::map<int64_t, std::vector<Point>>;  // by size; a test that repeats has several of one

double best_busbw(const std::vector<Point>& points) {
  return std::ranges::max(points, {}, &Point::busbw_gbs).busbw_gbs;
}
double best_time(const std::vector<Point>& points) { return std::ranges::min(points, {}, &Point::time_us).time_us; }

struct Run {
  BenchmarkRun row;
  std::map<SeriesKey, Curve> curves;
  std::vector<std::string> wrong;  // texts
  double busbw_per_algbw = 0;      // which test it is, where the output does not say
  bool moves_nothing = false;      // all results have a time, and a bus bandwidth of 0
  BenchmarkSummary summary;
};

using RunKey = std::pair<NodeId, int32_t>;

class RemarkList {
 public:
  explicit RemarkList(std::vector<std::string>& out) : out_(out) {}
  ~RemarkList() {
    if (left_ > 0) {
      out_.push_back(fmt::format("... and {} more like this", left_));
    }
  }
  RemarkList(const RemarkList&) = delete;
  RemarkList& operator=(const RemarkList&) = delete;
  void add(std::string remark) {
    if (added_++ < kRemarksOfAKind) {
      out_.push_back(std::move(remark));
    } else {
      ++left_;
    }
  }

 private:
  std::vector<std::string>& out_;
  size_t added_ = 0;
  size_t left_ = 0;
};

void take(Run& run, const BenchmarkResult& row) {
  const SeriesKey key{row.datatype, row.reduce_op, row.root, row.in_place};
  run.curves[key][row.bytes].push_back({row.time_us, row.busbw_gbs, row.line});
  BenchmarkSummary& summary = run.summary;
  summary.smallest_bytes = summary.results == 0 ? row.bytes : std::min(summary.smallest_bytes, row.bytes);
  summary.largest_bytes = std::max(summary.largest_bytes, row.bytes);
  ++summary.results;
  run.moves_nothing = (summary.results == 1 || run.moves_nothing) && row.busbw_gbs == 0 && row.algbw_gbs > 0;
  if (row.busbw_gbs > summary.peak_busbw_gbs || summary.results == 1) {
    summary.peak_busbw_gbs = row.busbw_gbs;
    summary.peak_bytes = row.bytes;
    run.busbw_per_algbw = row.algbw_gbs > 0 ? row.busbw_gbs / row.algbw_gbs : 0;
  }
  if (row.wrong.value_or(0) > 0) {
    ++summary.wrong_results;
    run.wrong.push_back(fmt::format("{} wrong of {} elements in the result of {} ({}){}", *row.wrong, row.count,
                                    format_size(row.bytes), describe(key),
                                    row.line > 0 ? fmt::format(", line {}", row.line) : ""));
  }
}

void add_failures(Run& run) {
  BenchmarkSummary& summary = run.summary;
  if (run.moves_nothing) {
    summary.remarks.emplace_back(
        "the bus bandwidth of each result is 0: the test had 1 rank, which transfers nothing; if mpirun or srun "
        "started "
        "several, nccl-tests was built without MPI=1, and each process was a test of its own");
  }
  summary.failed = run.row.failed || summary.wrong_results > 0;
  RemarkList remarks(summary.remarks);
  for (std::string& text : run.wrong) {
    remarks.add(std::move(text));
  }
  if (!run.row.problem.empty()) {
    summary.remarks.push_back("it reported: " + run.row.problem);
  } else if (run.row.failed && summary.wrong_results == 0) {
    summary.remarks.emplace_back("its summary has FAILED");
  }
  if (!run.row.ended) {
    const std::string asked = run.row.most_bytes > summary.largest_bytes
                                  ? fmt::format(", {} was asked for", format_size(run.row.most_bytes))
                                  : "";
    summary.remarks.push_back(
        summary.results == 0
            ? "its output has neither a result nor a summary: it hung, was ended, or the output was cut"
            : fmt::format("its output has no summary: after {} it hung, was ended, or the output was cut{}",
                          format_size(summary.largest_bytes), asked));
  }
}

/// A size that took longer than a larger one, or has less bandwidth than both neighbours, by kOutlierFactor.
void add_outliers(Run& run) {
  RemarkList remarks(run.summary.remarks);
  for (const auto& [key, curve] : run.curves) {
    const auto text = [&key = key](int64_t bytes, const Point& point) {
      return fmt::format("outlier: {} ({}){} took {:.4g} us, busbw {:.4g} GB/s; ", format_size(bytes), describe(key),
                         point.line > 0 ? fmt::format(", line {},", point.line) : "", point.time_us, point.busbw_gbs);
    };
    for (auto at = curve.begin(); at != curve.end(); ++at) {
      const auto& [bytes, points] = *at;
      const double best = best_busbw(points);
      const auto slow =
          std::ranges::find_if(points, [&](const Point& point) { return point.busbw_gbs * kOutlierFactor < best; });
      if (slow != points.end()) {
        remarks.add(text(bytes, *slow) + fmt::format("the same size had {:.4g} GB/s elsewhere in this run", best));
        continue;
      }
      const auto next = std::next(at);
      if (next == curve.end()) {
        continue;
      }
      const double next_time = best_time(next->second);
      const double next_busbw = best_busbw(next->second);
      if (next_time > 0 && best_time(points) > kOutlierFactor * next_time) {
        remarks.add(text(bytes, points.front()) +
                    fmt::format("the larger {} took {:.4g} us", format_size(next->first), next_time));
      } else if (at != curve.begin() && best * kOutlierFactor < next_busbw &&
                 best * kOutlierFactor < best_busbw(std::prev(at)->second)) {
        remarks.add(text(bytes, points.front()) +
                    fmt::format("{} has {:.4g}, {} has {:.4g}", format_size(std::prev(at)->first),
                                best_busbw(std::prev(at)->second), format_size(next->first), next_busbw));
      }
    }
  }
}

/// busbw of `run` as shares of `reference`'s, at the sizes that both have.
std::vector<double> shares_of(const Run& run, const Run& reference, int64_t least_bytes) {
  std::vector<double> shares;
  for (const auto& [key, curve] : run.curves) {
    const auto other = reference.curves.find(key);
    if (other == reference.curves.end()) {
      continue;
    }
    for (auto at = curve.lower_bound(least_bytes); at != curve.end(); ++at) {
      const auto same = other->second.find(at->first);
      const double theirs = same == other->second.end() ? 0 : best_busbw(same->second);
      if (theirs > 0) {
        shares.push_back(best_busbw(at->second) / theirs);
      }
    }
  }
  return shares;
}

void note_hosts(const std::vector<Run*>& slower, const std::vector<Run*>& others, const std::string& name,
                Report& report) {
  std::set<std::string> hosts;
  for (const Run* run : slower) {
    hosts.insert(run->summary.hosts.begin(), run->summary.hosts.end());
  }
  for (const Run* run : others) {
    for (const std::string& host : run->summary.hosts) {
      hosts.erase(host);
    }
  }
  if (!hosts.empty() && hosts.size() <= 8 && others.size() > 1) {
    report.notes.push_back(fmt::format("hosts that only the slower runs of {} had: {}", name, fmt::join(hosts, ", ")));
  }
}

/// Runs of one test on as many ranks. The fastest is the reference.
void compare(const std::vector<Run*>& runs, const std::map<const Run*, size_t>& numbers, Report& report) {
  if (runs.size() < 2) {
    return;
  }
  const Run* reference =
      *std::ranges::max_element(runs, {}, [](const Run* run) { return run->summary.peak_busbw_gbs; });
  std::vector<Run*> slower;
  std::vector<Run*> others;
  for (Run* run : runs) {
    if (run == reference) {
      others.push_back(run);
      continue;
    }
    int64_t least_bytes = kBandwidthBytes;
    std::vector<double> shares = shares_of(*run, *reference, least_bytes);
    if (shares.size() < kSizesCompared) {
      least_bytes = 0;
      shares = shares_of(*run, *reference, 0);
    }
    if (shares.size() < kSizesCompared) {
      run->summary.remarks.push_back(fmt::format("not compared: it has {} in common with run [{}]",
                                                 count_of(static_cast<int64_t>(shares.size()), "result"),
                                                 numbers.at(reference)));
      continue;
    }
    const double share = median(shares);
    const bool slow = share < kSlowerRunShare;
    (slow ? slower : others).push_back(run);
    run->summary.remarks.push_back(
        fmt::format("{}: busbw {:.0f} % of run [{}]'s in the median of {}{}", slow ? "slower" : "alike", 100 * share,
                    numbers.at(reference), count_of(static_cast<int64_t>(shares.size()), "result"),
                    least_bytes > 0 ? fmt::format(" of {} and more", format_size(least_bytes)) : ""));
  }
  note_hosts(slower, others, reference->summary.name, report);
}

}  // namespace

Status add_benchmarks(EventSource& source, Report& report) {
  std::map<RunKey, Run> runs;
  ST_ASSIGN(const std::vector<BenchmarkRun> rows, source.benchmark_runs());
  for (const BenchmarkRun& row : rows) {
    Run& run = runs[{row.node_id, row.run}];
    run.row = row;
    BenchmarkSummary& summary = run.summary;
    summary.name = row.test.empty() ? "a benchmark" : row.test;
    summary.file = row.file;
    summary.line = row.line;
    summary.nranks = row.nranks;
    summary.ended = row.ended;
    for (const std::string_view host : split_fields(row.hosts)) {
      summary.hosts.emplace_back(host);
    }
  }
  if (runs.empty()) {
    return {};
  }
  ST_TRY(source.benchmark_results({}, [&](const BenchmarkResult& row) {
    const auto run = runs.find({row.node_id, row.run});
    if (run != runs.end()) {
      take(run->second, row);
    }
  }));
  std::vector<Run*> ordered;
  for (auto& [key, run] : runs) {
    ordered.push_back(&run);
  }
  std::ranges::stable_sort(ordered, {}, [](const Run* run) { return std::pair(run->row.file, run->row.line); });
  std::map<const Run*, size_t> numbers;
  std::map<std::tuple<std::string, int32_t, int64_t>, std::vector<Run*>> tests;
  for (Run* run : ordered) {
    const size_t number = numbers.size() + 1;
    numbers[run] = number;
    add_failures(*run);
    add_outliers(*run);
    const auto ratio = run->row.test.empty() ? static_cast<int64_t>(run->busbw_per_algbw * 50 + 0.5) : 0;
    std::vector<Run*>& same = tests[{run->row.test, run->row.nranks, ratio}];
    if (run->summary.results > 0 && same.size() < kRunsCompared) {
      same.push_back(run);
    }
  }
  for (const auto& [test, same] : tests) {
    compare(same, numbers, report);
  }
  for (Run* run : ordered) {
    report.benchmarks.push_back(std::move(run->summary));
  }
  return {};
}

}  // namespace stalltrace::analysis
