// SPDX-License-Identifier: Apache-2.0
#include "cli/run/run_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/rights/secure_mode.h"
#include "base/text.h"
#include "cli/recorded_profiler_files.h"
#include "cli/reporting.h"
#include "cli/run/analysis.h"
#include "cli/run/report_digest.h"
#include "report/report_json.h"
#include "report/report_text.h"

namespace stalltrace::cli {
namespace {

using std::chrono::milliseconds;

constexpr const char* kPluginVariable = "NCCL_PROFILER_PLUGIN";
/// A job that ends while its hang is explained: the explanation of its whole run follows.
constexpr milliseconds kRestOfAHang{30'000};
/// Explanations of one hang that fail: more would print the same.
constexpr int kMostFailures = 2;
constexpr const char* kFolderVariable = "STALLTRACE_DIR";

std::string text_of(const char* variable) { return variable == nullptr ? "" : variable; }

/// What the job's own environment chooses.
std::string text_of_variable(const char* name) { return text_of(std::getenv(name)); }

std::string chosen_folder() { return text_of(trusted_variable(kFolderVariable)); }

/// A console whose text is kept.
class HeldNotes {
 public:
  HeldNotes() : stream_(::open_memstream(&text_, &size_)) {
    if (stream_ == nullptr) {
      throw std::bad_alloc();
    }
  }
  ~HeldNotes() {
    std::fclose(stream_);
    std::free(text_);
  }
  HeldNotes(const HeldNotes&) = delete;
  HeldNotes& operator=(const HeldNotes&) = delete;

  Console& console() { return console_; }
  std::string_view text() {
    std::fflush(stream_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* stream_;
  Console console_{stream_, stream_};
};

}  // namespace

RunEvidence::RunEvidence(launch::RunFolder folder, const Options& options, const Privacy& privacy, launch::JobNews& job,
                         Console& console)
    : console_(console),
      privacy_(privacy),
      job_(job),
      patience_(options.patience),
      folder_(std::move(folder)),
      profiler_files_(
          folder_.profiler_folder(), chosen_folder(), [&](const std::string& line) { console.note(line); },
          blackbox::kProfilerFolder, options.launcher) {
  if (!options.node.empty()) {
    environment_.push_back("STALLTRACE_NODE=" + options.node);
  }
  add_plugin();
  add_thread_names();
  add_log();
  note(fmt::format("the evidence goes to {}{}", folder_.path,
                   !files_expected_ ? ""
                   : profiler_files_.in_memory()
                       ? fmt::format(", profiler files to {} until the job has ended", profiler_files_.folder())
                   : chosen_folder().empty() ? ""
                                             : ", profiler files to " + profiler_files_.folder()));
}

void RunEvidence::add_plugin() {
  if (const std::string chosen = text_of_variable(kPluginVariable); chosen.empty()) {
    auto installed = launch::PluginFile::install(folder_.own);
    if (!installed) {
      why_no_plugin_ = installed.error().what;
      note("no profiler file will be written: " + why_no_plugin_);
      return;
    }
    plugin_.emplace(std::move(*installed));
    environment_.push_back(fmt::format("{}={}", kPluginVariable, plugin_->path()));
  } else if (!launch::is_our_plugin(chosen)) {
    note(fmt::format("{} is {} already: it stays, and no profiler file is written", kPluginVariable, chosen));
    return;
  }
  files_expected_ = true;
  if (privacy_.commands() == CommandLines::kWhole) {
    environment_.emplace_back("STALLTRACE_COMMANDS=whole");
  }
  environment_.push_back(fmt::format("{}={}", kFolderVariable, profiler_files_.folder()));
}

std::string RunEvidence::profiler_folder_in(const std::vector<std::string>& environment) {
  const std::string begin = std::string(kFolderVariable) + "=";
  const auto line = std::ranges::find_if(environment, [&](const std::string& text) { return text.starts_with(begin); });
  return line == environment.end() ? "" : line->substr(begin.size());
}

/// NCCL names its threads only on request. The names separate the connections with its data from the rank's other
/// connections, also if NCCL passes them to helper threads.
void RunEvidence::add_thread_names() {
  if (text_of_variable("NCCL_SET_THREAD_NAME").empty()) {
    environment_.emplace_back("NCCL_SET_THREAD_NAME=1");
  }
}

void RunEvidence::add_log() {
  if (text_of_variable("NCCL_DEBUG").empty()) {
    environment_.emplace_back("NCCL_DEBUG=INFO");
    environment_.push_back("NCCL_DEBUG_FILE=" + folder_.log_pattern());
  }
}

void RunEvidence::explain_hang(const launch::Progress& progress, int64_t still_ns,
                               const std::optional<std::string>& recording, bool again) {
  if (!again) {
    printed_digest_.reset();
    failed_explanations_ = 0;
  }
  const std::vector<std::string> files = recording ? std::vector<std::string>() : profiler_files_.paths();
  if (failed_explanations_ >= kMostFailures || (!recording && files.empty())) {
    return;
  }
  const auto work = [&](std::string& digest) {
    HeldNotes of_import;  // printed with what they are about
    if (!recording) {
      std::error_code ignored;
      std::filesystem::remove(folder_.hang_recording(), ignored);
      if (!import_files(files, folder_.hang_recording(), of_import.console())) {
        console_.page(of_import.text());
        return false;
      }
    }
    const std::optional<Report> report = report_of(recording.value_or(folder_.hang_recording()));
    if (!report) {
      return false;
    }
    digest = digest_of(*report);
    if (printed_digest_ != digest) {
      console_.page(of_import.text());
      note(fmt::format("no collective has completed for {} while {} are open; {}:", format_duration(still_ns),
                       progress.open,
                       !printed_digest_           ? "what is known so far"
                       : report->findings.empty() ? "what was found before is withdrawn"
                                                  : "what is known now"));
      print(*report);
    }
    return true;
  };
  if (std::string digest; analyse(work, digest)) {
    printed_digest_ = std::move(digest);
    failed_explanations_ = 0;
  } else {
    ++failed_explanations_;
  }
}

bool RunEvidence::analyse(const std::function<bool(std::string& answer)>& work, std::string& answer) {
  const auto look = [this] {
    job_.look();
    if (job_.asked_to_end() && !concluding_) {
      save_soon();
    }
    return job_.code() && !concluding_ ? kRestOfAHang : patience_.analysis;
  };
  const Result<bool> done = cli::analyse(work, patience_.analysis, look, answer);
  if (!done) {
    console_.error({.what = done.error().what,
                    .remedy = fmt::format("the evidence stays in {}: import and explain read it elsewhere, or later",
                                          folder_.path)});
  }
  return done.value_or(false);
}

void RunEvidence::note_progress(int64_t still_ns) {
  note(fmt::format("collectives complete again: the job stood still for {}", format_duration(still_ns)));
}

void RunEvidence::collect() {
  files_ = profiler_files_.collect([this](const std::string& line) { note(line); });
}

void RunEvidence::conclude(const Traced& traced, int job_code) {
  concluding_ = true;
  if (files_expected_ && files_.empty()) {
    if (!traced.only_other_libraries) {
      note_missing_files();
    }
  } else if (!files_.empty()) {
    note(fmt::format("the profiler files of this run are in {}",
                     std::filesystem::path(files_.front()).parent_path().string()));
  }
  std::string no_answer;
  const auto work = [&](std::string&) { return import_and_explain(traced, job_code); };
  if ((traced.recorded || !files_.empty()) && analyse(work, no_answer)) {
    note(fmt::format("the evidence is in {}", folder_.path));
  }
  plugin_.reset();
  folder_.remove_if_empty();
  folder_.hand_over();
}

void RunEvidence::discard() {
  profiler_files_.discard();
  plugin_.reset();
  folder_.discard();
}

bool RunEvidence::import_and_explain(const Traced& traced, int job_code) {
  if (!traced.recorded) {
    return import_files(files_, folder_.recording(), console_) && explain(folder_.recording(), job_code);
  }
  // The tracer reads no profiler files on network or user file systems.
  const bool complete = traced.whole && traced.has_profiler_rows;
  if (!files_.empty() && !complete && import_files(files_, folder_.profiler_recording(), console_)) {
    note(traced.has_profiler_rows
             ? fmt::format("the trace ends early, and so does this report: stalltrace explain {} covers the whole run",
                           folder_.profiler_recording())
             : fmt::format("the trace has nothing of the profiler files: what they recorded is in {}",
                           folder_.profiler_recording()));
  }
  return explain(folder_.recording(), job_code);
}

bool RunEvidence::import_files(const std::vector<std::string>& files, const std::string& out, Console& console) const {
  if (files.empty()) {
    return false;
  }
  const Status imported = record_profiler_files(files, out, privacy_, console);
  if (!imported) {
    console.error(imported.error());
  }
  return imported.has_value();
}

std::optional<Report> RunEvidence::report_of(const std::string& recording) const {
  const std::string recordings[] = {recording};
  Result<Report> report = explain_recordings(recordings);
  if (!report) {
    console_.error(report.error());
    return std::nullopt;
  }
  return std::move(*report);
}

bool RunEvidence::explain(const std::string& recording, int job_code) {
  const std::optional<Report> report = report_of(recording);
  if (!report) {
    return false;
  }
  print(*report);
  note_failure(*report, job_code);
  if (const Status written =
          write_file(folder_.findings(), report::report_to_json(*report), file_mode(privacy_.readers()));
      !written) {
    console_.error(written.error());
  }
  return true;
}

/// A failed job must not be reported as healthy without a note.
void RunEvidence::note_failure(const Report& report, int job_code) const {
  if (job_code == 0 || !report.findings.empty()) {
    return;
  }
  note(fmt::format("the job ended with exit code {}, for which there is no finding: {}", job_code,
                   report.failed_ranks > 0 ? "see the note on the ranks that failed"
                   : report.judged == 0    ? "no collective was recorded"
                                        : "no recorded rank failed by itself; the error may be the launcher's, or of a "
                                          "process without collectives: read its log"));
}

void RunEvidence::note_missing_files() const {
  note(fmt::format("no profiler file appeared in {}: no process of the job had NCCL load the profiler plugin",
                   profiler_files_.folder()));
  if (!folder_.has_logs()) {
    note("possible reasons:");
    note("  1. the job made no NCCL communicator");
    note(fmt::format("  2. its ranks ran on a host or in a container that does not see {}", profiler_files_.folder()));
    note("  3. its NCCL is older than 2.23, and logs elsewhere");
  } else {
    note(fmt::format("possible reasons; {}/nccl.*.log show which (lines with PROFILER/Plugin or stalltrace):",
                     folder_.path));
    note("  1. its NCCL is older than 2.23");
    note("  2. NCCL could not load the plugin (a noexec mount, a path of more than 254 characters)");
    note("  3. its processes may not write there");
  }
}

/// Standard output belongs to the job.
void RunEvidence::print(const Report& report) const {
  console_.page(report::report_to_text(report, {.colour = console_.colour_err()}));
}

}  // namespace stalltrace::cli
