// SPDX-License-Identifier: Apache-2.0
// What `run` knows of the job: where its evidence lies, whether profiler files are written at all, and what it prints
// about them. Single-threaded. Nothing here may keep the job from starting or going on: a failure is printed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/framework/console.h"
#include "cli/privacy.h"
#include "launch/hang_watch.h"
#include "launch/plugin_file.h"
#include "launch/profiler_files.h"
#include "launch/run_folder.h"
#include "model/finding.h"

namespace stalltrace::cli {

class RunEvidence {
 public:
  /// Makes the places; says where they are. `node` is the name that was asked for; empty: none was.
  RunEvidence(launch::RunFolder folder, const std::string& node, const Privacy& privacy, Console& console);

  [[nodiscard]] const launch::RunFolder& folder() const { return folder_; }
  [[nodiscard]] const launch::ProfilerFiles& profiler_files() const { return profiler_files_; }
  /// What the job gets besides its own environment. A profiler, a log and a place that the user has chosen stay.
  [[nodiscard]] const std::vector<std::string>& environment() const { return environment_; }

  /// About once a second while the job runs.
  void look() { profiler_files_.update(); }
  /// A signal to end has come: a SIGKILL may follow.
  void save_soon() { profiler_files_.save_soon(); }
  /// No collective has completed for `still_ns`. Of a recording, or where there is none, of the profiler files as they
  /// are now.
  void explain_hang(const launch::Progress& progress, int64_t still_ns, const std::optional<std::string>& recording);
  /// After a report that the job stood still: it does no more.
  void note_progress(int64_t still_ns);
  /// The job has ended: puts the profiler files where they belong.
  void settle();
  /// Explains the run. `traced`: there is a recording; `has_profiler_rows`: with ends from profiler files.
  void conclude(bool traced, bool has_profiler_rows, int job_code);
  /// The job was never started.
  void discard();

 private:
  void add_plugin();
  void add_thread_names();
  void add_log();
  bool import_files(const std::vector<std::string>& files, const std::string& out);
  /// `job_code`: of the job that has ended; none while it runs.
  bool explain(const std::string& recording, std::optional<int> job_code);
  void note_failure(const Report& report, int job_code) const;
  void note_missing_files() const;
  void say(const Report& report) const;
  void note(const std::string& line) const { console_.note(line); }

  Console& console_;
  const Privacy& privacy_;
  launch::RunFolder folder_;
  launch::ProfilerFiles profiler_files_;
  std::optional<launch::PluginFile> plugin_;
  bool files_expected_ = false;
  std::string why_no_plugin_;
  std::vector<std::string> environment_;
  std::vector<std::string> files_;  // after settle()
};

}  // namespace stalltrace::cli
