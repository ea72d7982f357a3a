// SPDX-License-Identifier: Apache-2.0
#include "cli/run_evidence.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "cli/recorded_profiler_files.h"
#include "cli/reporting.h"
#include "report/report_json.h"
#include "report/report_text.h"

namespace stalltrace::cli {
namespace {

constexpr const char* kPluginVariable = "NCCL_PROFILER_PLUGIN";
constexpr const char* kFolderVariable = "STALLTRACE_DIR";

std::string text_of_variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace

RunEvidence::RunEvidence(launch::RunFolder folder, const std::string& node, const Privacy& privacy, Console& console)
    : console_(console),
      privacy_(privacy),
      folder_(std::move(folder)),
      profiler_files_(folder_.profiler_folder(), text_of_variable(kFolderVariable),
                      [&](const std::string& line) { console.note(line); }) {
  if (!node.empty()) {
    environment_.push_back("STALLTRACE_NODE=" + node);
  }
  add_plugin();
  add_thread_names();
  add_log();
  note(fmt::format("the evidence goes to {}{}", folder_.path,
                   !files_expected_ ? ""
                   : profiler_files_.in_memory()
                       ? fmt::format(", profiler files to {} until the job has ended", profiler_files_.folder())
                   : text_of_variable(kFolderVariable).empty() ? ""
                                                               : ", profiler files to " + profiler_files_.folder()));
}

void RunEvidence::add_plugin() {
  if (const std::string chosen = text_of_variable(kPluginVariable); chosen.empty()) {
    auto placed = launch::PluginFile::place(folder_.own);
    if (!placed) {
      why_no_plugin_ = placed.error().what;
      note("no profiler file will be written: " + why_no_plugin_);
      return;
    }
    plugin_.emplace(std::move(*placed));
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
                               const std::optional<std::string>& recording) {
  if (!recording) {
    std::error_code ignored;
    std::filesystem::remove(folder_.hang_recording(), ignored);
    if (!import_files(profiler_files_.paths(), folder_.hang_recording())) {
      return;
    }
  }
  note(fmt::format("no collective has completed for {} while {} are open; what is known so far:",
                   format_duration(still_ns), progress.open));
  explain(recording.value_or(folder_.hang_recording()), std::nullopt);
}

void RunEvidence::note_progress(int64_t still_ns) {
  note(fmt::format("collectives complete again: the job stood still for {}", format_duration(still_ns)));
}

void RunEvidence::settle() {
  files_ = profiler_files_.settle([this](const std::string& line) { note(line); });
}

void RunEvidence::conclude(bool traced, bool has_profiler_rows, int job_code) {
  bool recorded = traced;
  if (files_expected_ && files_.empty()) {
    note_missing_files();
  } else if (!files_.empty()) {
    note(fmt::format("the profiler files of this run are in {}",
                     std::filesystem::path(files_.front()).parent_path().string()));
    if (!traced) {
      recorded = import_files(files_, folder_.recording());
    } else if (!has_profiler_rows && import_files(files_, folder_.profiler_recording())) {
      // The tracer reads no profiler files on network or user file systems.
      note(fmt::format("the trace has nothing of the profiler files: what they recorded is in {}",
                       folder_.profiler_recording()));
    }
  }
  if (recorded && explain(folder_.recording(), job_code)) {
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

bool RunEvidence::import_files(const std::vector<std::string>& files, const std::string& out) {
  if (files.empty()) {
    return false;
  }
  const Status imported = record_profiler_files(files, out, privacy_, console_);
  if (!imported) {
    console_.error(imported.error());
  }
  return imported.has_value();
}

bool RunEvidence::explain(const std::string& recording, std::optional<int> job_code) {
  const std::string recordings[] = {recording};
  const Result<Report> report = explain_recordings(recordings);
  if (!report) {
    console_.error(report.error());
    return false;
  }
  say(*report);
  if (job_code) {
    note_failure(*report, *job_code);
    if (const Status written =
            write_file(folder_.findings(), report::report_to_json(*report), file_mode(privacy_.readers()));
        !written) {
      console_.error(written.error());
    }
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
void RunEvidence::say(const Report& report) const {
  console_.page(report::report_to_text(report, {.colour = console_.colour_err()}));
}

}  // namespace stalltrace::cli
