// SPDX-License-Identifier: Apache-2.0
// How well the clocks of hosts are aligned by their jobs alone: bench_clocks [--seeds FROM:TO] [--shape NAME], of
// simulated jobs. Clocks are up to 5 s apart and drift by up to 50 ppm; half of the jobs have a fault that lasts.
// For each host but the reference, at the begin, the middle and the end of the job: how far its aligned times are from
// the truth, and whether the stated error contains that. Each job is explained with right clocks, too: its findings
// should be the same. Generation and analysis in one process, without files.
// bench_clocks FILE...: by how much the times of each node of these recordings are moved, and the stated error. Of
// copies of a lab run with a boot id for each node, the truth is 0.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/explain.h"
#include "base/clock.h"
#include "bench/must.h"
#include "lab/cluster/simulated/scored_job.h"
#include "lab/simulation/draw.h"
#include "lab/simulation/job.h"
#include "lab/simulation/shapes.h"
#include "model/memory_source.h"
#include "store/read/reader.h"

namespace stalltrace {
namespace {

using simulation::Job;
using simulation::JobOptions;

constexpr double kClockErrorMs = 5000;
constexpr double kDriftPpm = 50;
constexpr int64_t kGoalNs = 200'000;

struct Request {
  uint64_t from = 1;
  uint64_t to = 51;
  std::string shape;
};

/// Of one shape, with the plugin or without: a host counts three times.
struct Row {
  int64_t jobs = 0;
  int64_t hosts = 0;               // but the reference
  int64_t incomparable = 0;        // hosts whose stated error exceeds 10 ms, or that nothing bounds
  std::vector<int64_t> errors_ns;  // true ones, of all others
  std::vector<int64_t> stated_ns;
  int64_t contained = 0;
  int64_t within_goal = 0;
  int64_t other_findings = 0;  // jobs
};

constexpr int64_t kComparableNs = 10'000'000;

std::string text_of(const Report& report) {
  std::vector<std::string> texts;
  for (const Finding& finding : report.findings) {
    const Culprit culprit = finding.culprit.value_or(Culprit{});
    const LinkEndpoints link = finding.link.value_or(LinkEndpoints{});
    texts.push_back(fmt::format("{} rank {} node '{}' link {} to {} {}", to_text(finding.cause),
                                culprit.rank.value_or(-1), culprit.node, link.src_rank.value_or(-1),
                                link.dst_rank.value_or(-1), to_text(finding.severity)));
  }
  std::ranges::sort(texts);
  return fmt::format("{}", fmt::join(texts, "; "));
}

ExplainResult explained(const Job& job) {
  MemorySource source;
  job.record_all(source);
  return must(explain(source));
}

/// The times at which a job's clocks are compared, in true time.
std::array<int64_t, 3> moments_of(const Job& job) {
  const int64_t from_ns = job.history().first_step_ns;
  const int64_t to_ns = std::min(job.history().ended_ns, job.recorded_to_ns());
  return {from_ns, from_ns + (to_ns - from_ns) / 2, to_ns};
}

void compare(const Job& job, const ExplainResult& result, Row& row) {
  const auto reference = std::ranges::find(result.clocks, std::optional<int64_t>(0), &NodeClock::error_ns);
  if (reference == result.clocks.end()) {
    return;
  }
  const auto common_ns = [&](const NodeClock& clock, int64_t true_ns) {
    const int64_t own_ns = job.clock(static_cast<int>(clock.node_id) - 1).at(true_ns);
    return own_ns + clock.shift_ns + clock.drift.correction_ns(own_ns);
  };
  for (const NodeClock& clock : result.clocks) {
    if (clock.node_id == reference->node_id) {
      continue;
    }
    ++row.hosts;
    if (!clock.error_ns || *clock.error_ns > kComparableNs) {
      ++row.incomparable;
      continue;
    }
    for (const int64_t moment_ns : moments_of(job)) {
      const int64_t error_ns = std::abs(common_ns(clock, moment_ns) - common_ns(*reference, moment_ns));
      row.errors_ns.push_back(error_ns);
      row.stated_ns.push_back(*clock.error_ns);
      row.contained += error_ns <= *clock.error_ns ? 1 : 0;
      row.within_goal += error_ns <= kGoalNs ? 1 : 0;
    }
  }
}

int64_t of_share(std::vector<int64_t> values, double share) {
  if (values.empty()) {
    return 0;
  }
  const auto at = std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())));
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(at));
  return values[at];
}

double percent(int64_t part, size_t all) {
  return all == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(all);
}

void print(std::string_view name, const Row& row) {
  constexpr double kNsPerUs = 1000;
  fmt::print("| {} | {} | {} | {} | {:.0f} | {:.0f} | {:.0f} | {:.1f} % | {:.0f} | {:.1f} % | {} |\n", name, row.jobs,
             row.hosts, row.incomparable, static_cast<double>(of_share(row.errors_ns, 0.5)) / kNsPerUs,
             static_cast<double>(of_share(row.errors_ns, 0.99)) / kNsPerUs,
             static_cast<double>(of_share(row.errors_ns, 1)) / kNsPerUs, percent(row.within_goal, row.errors_ns.size()),
             static_cast<double>(of_share(row.stated_ns, 0.5)) / kNsPerUs, percent(row.contained, row.errors_ns.size()),
             row.other_findings);
}

Row& operator+=(Row& sum, const Row& row) {
  sum.jobs += row.jobs;
  sum.hosts += row.hosts;
  sum.incomparable += row.incomparable;
  sum.errors_ns.insert(sum.errors_ns.end(), row.errors_ns.begin(), row.errors_ns.end());
  sum.stated_ns.insert(sum.stated_ns.end(), row.stated_ns.begin(), row.stated_ns.end());
  sum.contained += row.contained;
  sum.within_goal += row.within_goal;
  sum.other_findings += row.other_findings;
  return sum;
}

void run(const Request& request) {
  std::map<std::string, Row> rows;
  for (uint64_t seed = request.from; seed < request.to; ++seed) {
    const simulation::DrawLimits limits{.fewest_steps = 60, .most_steps = 120, .cut = false};
    JobOptions options = seed % 2 == 0 ? simulation::draw_healthy(seed, limits, request.shape)
                                       : simulation::draw_faulty(seed, std::nullopt, limits, request.shape);
    if (options.nodes < 2) {
      continue;
    }
    options.attach_share = 0;
    options.clock_error_ms = 0;
    options.clock_drift_ppm = 0;
    options.clocks.clear();
    const Job right(options);
    options.clock_error_ms = kClockErrorMs;
    options.clock_drift_ppm = kDriftPpm;
    const Job wrong(options);
    const ExplainResult result = explained(wrong);
    Row row;
    row.jobs = 1;
    compare(wrong, result, row);
    const std::string found = text_of(result.report);
    const std::string expected = text_of(explained(right).report);
    row.other_findings = found == expected ? 0 : 1;
    const std::string name = options.shape + (options.plugin ? ", plugin" : "");
    fmt::print("{}: {} hosts, largest error {} us, stated {} us{}\n", lab::text_of(options), row.hosts,
               of_share(row.errors_ns, 1) / 1000, of_share(row.stated_ns, 1) / 1000,
               found == expected ? "" : fmt::format("\n    right clocks: {}\n    wrong clocks: {}", expected, found));
    std::fflush(stdout);
    rows[name] += row;
  }
  fmt::print(
      "\n| job | jobs | hosts | not comparable | error, median us | 99 % us | largest us | within 200 us | stated, "
      "median us | "
      "stated error contains the truth | jobs with other findings than with right clocks |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  Row all;
  for (const auto& [name, row] : rows) {
    print(name, row);
    all += row;
  }
  print("all", all);
}

void print_clocks(std::span<const std::string> files) {
  const auto source = must(store::open_recordings(files));
  for (const NodeClock& clock : must(explain(*source)).clocks) {
    fmt::print("node {}: moved by {} ns, {:.3f} ppm, known to within {} ns\n", clock.node_id, clock.shift_ns,
               clock.drift.rate * 1e6, clock.error_ns.value_or(-1));
  }
}

Request request_of(int count, char** words) {
  Request request;
  for (int i = 1; i + 1 < count; ++i) {
    const std::string_view word = words[i];
    const std::string_view value = words[i + 1];
    if (word == "--seeds") {
      const size_t colon = std::min(value.find(':'), value.size());
      std::from_chars(value.data(), value.data() + colon, request.from);
      std::from_chars(value.data() + std::min(colon + 1, value.size()), value.data() + value.size(), request.to);
    } else if (word == "--shape") {
      request.shape = value;
    }
  }
  return request;
}

}  // namespace
}  // namespace stalltrace

int main(int count, char** words) {
  const std::vector<std::string> all(words + 1, words + count);
  if (!all.empty() && !all.front().starts_with("--")) {
    stalltrace::print_clocks(all);
  } else {
    stalltrace::run(stalltrace::request_of(count, words));
  }
}
