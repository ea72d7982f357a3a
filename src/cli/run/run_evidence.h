// SPDX-License-Identifier: Apache-2.0
// The evidence of a run: where it is, whether profiler files are written at all, and the messages about it.
// Single-threaded. No failure here may prevent the job from starting or continuing: it is printed instead. Recordings
// are read and made in child processes only, whose memory and time are limited.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/framework/console.h"
#include "cli/privacy.h"
#include "launch/hang_watch.h"
#include "launch/plugin_file.h"
#include "launch/profiler_files.h"
#include "launch/run_folder.h"
#include "launch/supervision/supervisor.h"
#include "model/finding.h"

namespace stalltrace::cli {

class RunEvidence {
 public:
  struct Options {
    std::string node;    // the requested name; empty if there was none
    pid_t launcher = 0;  // the process that starts the job
    launch::Patience patience;
  };

  /// Creates the folders and prints their paths. `job` learns that this process gets on while something is explained.
  RunEvidence(launch::RunFolder folder, const Options& options, const Privacy& privacy, launch::JobNews& job,
              Console& console);

  [[nodiscard]] const launch::RunFolder& folder() const { return folder_; }
  [[nodiscard]] const launch::ProfilerFiles& profiler_files() const { return profiler_files_; }
  /// Variables that are added to the job's environment. A profiler, a log and a folder that the user has chosen are
  /// kept.
  [[nodiscard]] const std::vector<std::string>& environment() const { return environment_; }
  /// Where the profiler files of a job with this environment() are; empty: it has none.
  static std::string profiler_folder_in(const std::vector<std::string>& environment);

  /// Called about once a second while the job runs.
  void look() { profiler_files_.update(); }
  /// Called on a signal to end, which SIGKILL may follow.
  void save_soon() { profiler_files_.save_soon(); }
  /// Called when no collective has completed for `still_ns`. Explains the recording or, if there is none, the current
  /// profiler files. `again`: the same hang was explained before; prints only what says something else than the last
  /// time, or that a finding is withdrawn.
  void explain_hang(const launch::Progress& progress, int64_t still_ns, const std::optional<std::string>& recording,
                    bool again);
  /// Called when the job continues after a report that it stood still.
  void note_progress(int64_t still_ns);
  /// Called when the job has ended: moves the profiler files to the run's folder.
  void collect();
  /// What the tracer has left.
  struct Traced {
    bool recorded = false;
    bool whole = false;                 // until the job's end
    bool has_profiler_rows = false;     // the recording has ends from profiler files
    bool only_other_libraries = false;  // it has calls, and none of NCCL: no profiler file is missing
  };
  /// Explains the run.
  void conclude(const Traced& traced, int job_code);
  /// Called if the job was never started.
  void discard();

 private:
  void add_plugin();
  void add_thread_names();
  void add_log();
  /// In a child process; false where it failed, which was printed.
  bool analyse(const std::function<bool(std::string& answer)>& work, std::string& answer);
  bool import_and_explain(const Traced& traced, int job_code);
  bool import_files(const std::vector<std::string>& files, const std::string& out, Console& console) const;
  bool explain(const std::string& recording, int job_code);
  std::optional<Report> report_of(const std::string& recording) const;
  void note_failure(const Report& report, int job_code) const;
  void note_missing_files() const;
  void print(const Report& report) const;
  void note(const std::string& line) const { console_.note(line); }

  Console& console_;
  const Privacy& privacy_;
  launch::JobNews& job_;
  launch::Patience patience_;
  launch::RunFolder folder_;
  launch::ProfilerFiles profiler_files_;
  std::optional<launch::PluginFile> plugin_;
  bool files_expected_ = false;
  std::string why_no_plugin_;
  std::vector<std::string> environment_;
  std::vector<std::string> files_;             // set by collect()
  std::optional<std::string> printed_digest_;  // on the hang; none: nothing was printed
  int failed_explanations_ = 0;                // of the hang
  bool concluding_ = false;
};

}  // namespace stalltrace::cli
