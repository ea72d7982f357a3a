// SPDX-License-Identifier: Apache-2.0
// Time and peak memory of `explain` on recordings as the tracer writes them: real files, made by the recording's own
// writer in a temporary folder, read in the page cache. Each case runs in a process of its own.
//
//   bench_explain_recording [EVENTS] [RUNS] [FOLDER]     default: 10,000,000 of 8 ranks, 3 runs; budget 3 s, 512 MiB
//
//   calls, 1 host     every event is a collective, all in one file: the hard case, since each is read and judged
//   calls, 4 hosts    the same over 4 hosts with clocks of their own, a file each
//   mix, 4 hosts      the tables in a lab run's proportions, a file each
//   mix, merged       the same in one merged file
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "analysis/explain.h"
#include "base/process/command.h"
#include "base/process/subprocess.h"
#include "bench/analysis/recorded_job.h"
#include "bench/must.h"
#include "bench/peak_memory.h"
#include "store/merge.h"
#include "store/read/reader.h"

namespace stalltrace {
namespace {

constexpr double kBudgetMs = 3000;
constexpr double kBudgetMib = 512;

/// CPU time of all threads, which a busy machine disturbs less than wall time.
int64_t cpu_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000 +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1'000;
}

/// Does the work of `stalltrace explain FILES` in this process, and prints one line for the parent.
int explain_files(const std::vector<std::string>& files) {
  const auto begun = std::chrono::steady_clock::now();
  const auto source = must(store::open_recordings(files));
  const Report report = must(explain(*source)).report;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
  fmt::print("{:.0f} {} {} {} {}\n", took.count(), cpu_ms(), peak_kib(), report.collectives, report.findings.size());
  return 0;
}

class Bench {
 public:
  Bench(int64_t events, int runs, std::filesystem::path folder)
      : events_(events), runs_(runs), folder_(std::move(folder)) {}

  bool run() {
    bool kept = explain("calls, 1 host", record(1, false));
    clear();
    kept = explain("calls, 4 hosts", record(4, false)) && kept;
    clear();
    const std::vector<std::string> files = record(4, true);
    kept = explain("mix, 4 hosts", files) && kept;
    const std::string merged = (folder_ / "merged.db").string();
    must(store::merge_recordings(files, merged));
    kept = explain("mix, merged", {merged}) && kept;
    clear();
    return kept;
  }

 private:
  std::vector<std::string> record(int32_t hosts, bool evidence) {
    return RecordedJob(hosts, evidence).write(events_, folder_);
  }

  void clear() {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::filesystem::remove(entry);
    }
  }

  bool explain(std::string_view name, const std::vector<std::string>& files) {
    std::vector<double> times_ms;
    int64_t least_cpu_ms = std::numeric_limits<int64_t>::max();
    double peak_mib = 0;
    int64_t collectives = 0;
    int64_t findings = 0;
    for (int run = 0; run < runs_; ++run) {
      SpawnOptions child{.argv = {"/proc/self/exe", "--explain"}};
      child.argv.insert(child.argv.end(), files.begin(), files.end());
      const CommandOutput output = must(run_and_capture(child, std::chrono::minutes(10)));
      double time_ms = 0;
      int64_t cpu = 0;
      int64_t kib = 0;
      if (!output.status.success() ||
          std::sscanf(output.out.c_str(), "%lf %ld %ld %ld %ld", &time_ms, &cpu, &kib, &collectives, &findings) != 5) {
        die({.what = fmt::format("{}: {}", name, output.err)});
      }
      times_ms.push_back(time_ms);
      least_cpu_ms = std::min(least_cpu_ms, cpu);
      peak_mib = std::max(peak_mib, static_cast<double>(kib) / 1024);
    }
    std::sort(times_ms.begin(), times_ms.end());
    uintmax_t bytes = 0;
    for (const std::string& file : files) {
      bytes += std::filesystem::file_size(file);
    }
    const double median_ms = times_ms[times_ms.size() / 2];
    fmt::print("{:15} {} events ({} collectives, {} finding(s), {} MiB): {:.0f} ms ({:.0f}..{:.0f}), ", name, events_,
               collectives, findings, bytes >> 20, median_ms, times_ms.front(), times_ms.back());
    fmt::print("least CPU {} ms, peak {:.0f} MiB\n", least_cpu_ms, peak_mib);
    fmt::print("{:15} budget: {:.2f} of {:.0f} ms, {:.2f} of {:.0f} MiB\n", "", median_ms / kBudgetMs, kBudgetMs,
               peak_mib / kBudgetMib, kBudgetMib);
    std::fflush(stdout);
    return median_ms <= kBudgetMs && peak_mib <= kBudgetMib;
  }

  int64_t events_;
  int runs_;
  std::filesystem::path folder_;
};

}  // namespace
}  // namespace stalltrace

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "--explain") {
    return stalltrace::explain_files({argv + 2, argv + argc});
  }
  const int64_t events = argc > 1 ? std::atoll(argv[1]) : 10'000'000;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 3;
  const std::filesystem::path parent = argc > 3 ? argv[3] : std::filesystem::temp_directory_path().string();
  if (events < 10'000 || runs < 1) {
    fmt::print(stderr, "usage: bench_explain_recording [EVENTS >= 10000] [RUNS >= 1] [FOLDER]\n");
    return 2;
  }
  const std::filesystem::path folder = parent / fmt::format("stalltrace-bench-{}", ::getpid());
  std::filesystem::create_directories(folder);
  const bool kept = stalltrace::Bench(events, runs, folder).run();
  std::filesystem::remove_all(folder);
  return kept ? 0 : 1;
}
