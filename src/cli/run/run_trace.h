// SPDX-License-Identifier: Apache-2.0
// The tracer of `run`, in a process of its own: what becomes of it costs the run its trace at most. One thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/untrusted/untrusted_file.h"
#include "cli/framework/console.h"
#include "cli/privacy.h"
#include "launch/hang_watch.h"
#include "launch/run_folder.h"
#include "launch/supervision/running_time.h"
#include "launch/supervision/supervisor.h"

namespace stalltrace::cli {

class RunTrace {
 public:
  struct Options {
    std::string node;
    TrustedOwners trusted_owners;
    pid_t launcher = 0;  // its descendants are traced
    launch::Patience patience;
  };

  /// Returns once calls are seen. None where this user may not trace, or the tracer fails: a line says why.
  static std::optional<RunTrace> start(const launch::RunFolder& folder, const Options& options, const Privacy& privacy,
                                       Console& console);

  /// The tracer's news since the last call: how the job gets on. Prints what becomes of the tracer.
  std::optional<launch::Progress> look();
  [[nodiscard]] bool is_running() const { return worker_.has_value(); }
  /// Readable (poll) when look() finds something; -1 when nothing will come.
  [[nodiscard]] int descriptor() const { return worker_ ? worker_->channel().descriptor() : -1; }
  [[nodiscard]] int end_descriptor() const { return worker_ ? worker_->end_descriptor() : -1; }
  /// Asks for the ranks' stacks, and waits, not for long, until all events so far are in the recording.
  void flush();
  /// Ends the trace. Says to `job`'s launcher that this process gets on.
  void finish(launch::JobNews& job);
  /// There is a recording, if only a part of one.
  [[nodiscard]] bool is_recorded() const { return recorded_; }
  /// It goes on to finish().
  [[nodiscard]] bool is_whole() const { return whole_; }
  /// The recording has ends of collectives from profiler files.
  [[nodiscard]] bool has_profiler_rows() const { return has_profiler_rows_; }
  /// It has calls, and none of NCCL.
  [[nodiscard]] bool only_other_libraries() const { return only_other_libraries_; }

 private:
  RunTrace(launch::Worker worker, const Options& options, Console& console)
      : worker_(std::move(worker)),
        patience_(options.patience),
        silence_(options.patience.silence),
        console_(&console) {}
  /// False when it has ended.
  bool take_news();
  void lose(const std::string& how);

  std::optional<launch::Worker> worker_;
  launch::Patience patience_;
  launch::SilenceWatch silence_;
  Console* console_;
  std::optional<launch::Progress> progress_;  // not yet given to a caller
  bool ready_ = false;
  bool flushed_ = false;
  bool finishing_ = false;
  bool recorded_ = false;
  bool whole_ = false;
  bool has_profiler_rows_ = false;
  bool only_other_libraries_ = false;
};

}  // namespace stalltrace::cli
