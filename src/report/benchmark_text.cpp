// SPDX-License-Identifier: Apache-2.0
#include "report/benchmark_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"

namespace stalltrace::report {
namespace {

constexpr size_t kRunsListed = 64;
constexpr size_t kHostsListed = 8;

std::string participants_text(const BenchmarkSummary& run) {
  if (run.nranks == 0) {
    return "on ranks that the output does not list";
  }
  const size_t listed = std::min(run.hosts.size(), kHostsListed);
  return fmt::format("on {} of {} ({}{})", count_of(run.nranks, "rank"), count_of(std::ssize(run.hosts), "host"),
                     fmt::join(run.hosts.begin(), run.hosts.begin() + static_cast<std::ptrdiff_t>(listed), ", "),
                     listed < run.hosts.size() ? ", ..." : "");
}

void write_run(Page& page, const BenchmarkSummary& run, size_t number) {
  page.line();
  page.line(fmt::format("{} {} {}{}", page.paint(fmt::format("[{}]", number), kBold), printable(run.name),
                        printable(participants_text(run)),
                        run.failed ? ", " + page.paint("failed", severity_colour(Severity::kCritical)) : ""));
  page.field("output", printable(run.line > 0 ? fmt::format("{}, line {}", run.file, run.line) : run.file));
  if (run.results > 0) {
    page.field("results", fmt::format("{} of {} to {}; highest busbw {:.4g} GB/s, at {}", run.results,
                                      format_size(run.smallest_bytes), format_size(run.largest_bytes),
                                      run.peak_busbw_gbs, format_size(run.peak_bytes)));
  }
  bool first = true;
  for (const std::string& remark : run.remarks) {
    page.field(first ? "shows" : "", printable(remark));
    first = false;
  }
}

}  // namespace

std::string benchmarks_text(const Report& report) {
  if (report.benchmarks.empty()) {
    return "";
  }
  const auto failed = std::ranges::count_if(report.benchmarks, &BenchmarkSummary::failed);
  return fmt::format("{}{}", count_of(std::ssize(report.benchmarks), "benchmark"),
                     failed > 0 ? fmt::format(", {} of them failed", failed) : "");
}

void write_benchmarks(Page& page, const Report& report) {
  for (size_t i = 0; i < report.benchmarks.size() && i < kRunsListed; ++i) {
    write_run(page, report.benchmarks[i], i + 1);
  }
  if (report.benchmarks.size() > kRunsListed) {
    page.line();
    page.line(fmt::format("... and {} more benchmarks; --json has all", report.benchmarks.size() - kRunsListed));
  }
}

}  // namespace stalltrace::report
