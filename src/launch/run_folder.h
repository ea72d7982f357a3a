// SPDX-License-Identifier: Apache-2.0
// The folder of a run: claimed so that launchers with one working folder never share it, and removed if the run has no
// results.
#pragma once

#include <string>

#include "base/files/own_folder.h"
#include "base/result.h"

namespace stalltrace::launch {

struct RunFolder {
  OwnFolder own;
  std::string path;  // absolute; no other user can redirect it

  [[nodiscard]] std::string recording() const { return path + "/trace.db"; }
  /// Made from the profiler files at the latest hang.
  [[nodiscard]] std::string hang_recording() const { return path + "/hang.db"; }
  /// Made from the profiler files at the end, if the tracer has not read them.
  [[nodiscard]] std::string profiler_recording() const { return path + "/profiler.db"; }
  [[nodiscard]] std::string profiler_folder() const { return path + "/profiler"; }
  [[nodiscard]] std::string findings() const { return path + "/findings.json"; }
  /// In the form of NCCL_DEBUG_FILE: %h and %p are the host and the process.
  [[nodiscard]] std::string log_pattern() const;
  /// True if any process of the job wrote NCCL's log there.
  [[nodiscard]] bool has_logs() const;
  /// Removes an empty folder of profiler files, the plugin's copy, and the folder itself if it contains nothing else.
  void remove_if_empty() const;
  /// The same, including what was recorded, for a job that was never started.
  void discard() const;
  /// Call when all is written: gives the folder to the user who called sudo, if any.
  void hand_over() const { own.hand_over(); }
};

/// The default name of the folder: it distinguishes nodes.
std::string default_run_folder(const std::string& node);

/// Creates `wanted`, or `wanted`-2, -3 ... if that has an earlier run. Several launchers that want one folder at the
/// same time each get their own, also on a network file system. A folder that belongs to another user, or that others
/// can write to or replace, is an error.
Result<RunFolder> claim_run_folder(const std::string& wanted, Readers readers = Readers::kOwner);

/// Creates a new one in the folder for temporary files, with `wanted`'s last part in its name.
Result<RunFolder> temporary_run_folder(const std::string& wanted, Readers readers = Readers::kOwner);

}  // namespace stalltrace::launch
