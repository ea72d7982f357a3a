// SPDX-License-Identifier: Apache-2.0
// Time, memory and size of `export`, on the mix of tables that a lab run has, 4 hosts and 8 ranks. Both formats in
// pairs, each run in a process of its own; the file goes to the folder of the recordings.
//
//   bench_export [ROWS] [PAIRS] [FOLDER]     default: 1,000,000 rows, 5 pairs
//
// Goals: a million rows in 2 s, and a fifth of the size of Chrome's JSON. The analysis that the subcommand runs before
// is not part of the time: bench_explain_recording measures it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "analysis/explain.h"
#include "base/files/new_file.h"
#include "base/process/command.h"
#include "base/process/subprocess.h"
#include "bench/analysis/recorded_job.h"
#include "bench/must.h"
#include "bench/peak_memory.h"
#include "export/encode/chrome_encoder.h"
#include "export/encode/perfetto_encoder.h"
#include "export/trace_export.h"
#include "store/read/reader.h"

namespace stalltrace {
namespace {

constexpr double kGoalRowsPerSecond = 500'000;
constexpr double kGoalRatio = 0.2;

/// Exports in this process and prints one line for the parent.
int export_files(const std::string& format, const std::string& out, const std::vector<std::string>& files) {
  using namespace trace_export;
  const auto source = must(store::open_recordings(files));
  const ExplainResult result = must(explain(*source, {.stalled_calls = true}));
  const auto begun = std::chrono::steady_clock::now();
  NewFile file = must(NewFile::create(out, 0600));
  const ByteSink sink = [&file](std::string_view bytes) { return file.append(bytes); };
  const auto encoder = format == "chrome" ? make_chrome_encoder(sink) : make_perfetto_encoder(sink);
  const TraceSummary summary = must(export_trace(*source, result.report, result.clocks, {}, *encoder));
  must(file.publish(IfThere::kReplace));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
  fmt::print("{:.0f} {} {} {}\n", took.count(), peak_kib(), summary.slices + summary.instants + summary.counter_values,
             summary.flows);
  return 0;
}

struct Run {
  double ms = 0;
  double peak_mib = 0;
  int64_t events = 0;
  int64_t flows = 0;
  uintmax_t bytes = 0;
};

Run run_once(const std::string& format, const std::string& out, const std::vector<std::string>& files) {
  SpawnOptions child{.argv = {"/proc/self/exe", "--export", format, out}};
  child.argv.insert(child.argv.end(), files.begin(), files.end());
  const CommandOutput output = must(run_and_capture(child, std::chrono::minutes(10)));
  Run run;
  int64_t kib = 0;
  if (!output.status.success() ||
      std::sscanf(output.out.c_str(), "%lf %ld %ld %ld", &run.ms, &kib, &run.events, &run.flows) != 4) {
    die({.what = fmt::format("{}: {}", format, output.err)});
  }
  run.peak_mib = static_cast<double>(kib) / 1024;
  run.bytes = std::filesystem::file_size(out);
  return run;
}

Run median(std::vector<Run> runs) {
  std::ranges::sort(runs, {}, &Run::ms);
  return runs[runs.size() / 2];
}

bool measure(int64_t rows, int pairs, const std::filesystem::path& folder) {
  const std::vector<std::string> files = RecordedJob(4, true).write(rows, folder);
  std::vector<Run> perfetto;
  std::vector<Run> chrome;
  for (int pair = 0; pair < pairs; ++pair) {
    perfetto.push_back(run_once("perfetto", folder / "out", files));
    chrome.push_back(run_once("chrome", folder / "out", files));
  }
  const auto print = [&](const char* name, const Run& run) {
    fmt::print(
        "{:9} {} rows to {} events and {} flows in {:.0f} ms: {:.2f} million rows/s, {:.2f} million events/s, "
        "{:.1f} bytes an event, peak {:.0f} MiB\n",
        name, rows, run.events, run.flows, run.ms, static_cast<double>(rows) / run.ms / 1e3,
        static_cast<double>(run.events) / run.ms / 1e3,
        static_cast<double>(run.bytes) / static_cast<double>(run.events), run.peak_mib);
  };
  const Run own = median(perfetto);
  const Run other = median(chrome);
  print("perfetto", own);
  print("chrome", other);
  const double rate = static_cast<double>(rows) / own.ms * 1e3 / kGoalRowsPerSecond;
  const double size = static_cast<double>(own.bytes) / static_cast<double>(other.bytes);
  fmt::print("goals: {:.2f} times the wanted rate; size {:.3f} of Chrome's JSON, wanted at most {:.1f}\n", rate, size,
             kGoalRatio);
  return rate >= 1 && size <= kGoalRatio;
}

}  // namespace
}  // namespace stalltrace

int main(int argc, char** argv) {
  if (argc > 4 && std::string_view(argv[1]) == "--export") {
    return stalltrace::export_files(argv[2], argv[3], {argv + 4, argv + argc});
  }
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  const int pairs = argc > 2 ? std::atoi(argv[2]) : 5;
  const std::filesystem::path parent = argc > 3 ? argv[3] : std::filesystem::temp_directory_path().string();
  if (rows < 10'000 || pairs < 1) {
    fmt::print(stderr, "usage: bench_export [ROWS >= 10000] [PAIRS >= 1] [FOLDER]\n");
    return 2;
  }
  const std::filesystem::path folder = parent / fmt::format("stalltrace-bench-{}", ::getpid());
  std::filesystem::create_directories(folder);
  const bool kept = stalltrace::measure(rows, pairs, folder);
  std::filesystem::remove_all(folder);
  return kept ? 0 : 1;
}
