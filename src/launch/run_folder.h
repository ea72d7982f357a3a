// SPDX-License-Identifier: Apache-2.0
// The folder of a run: claimed so that launchers which share a working folder never meet, and given back where nothing
// came of the run.
#pragma once

#include <string>

#include "base/files/own_folder.h"
#include "base/result.h"

namespace stalltrace::launch {

struct RunFolder {
  OwnFolder own;
  std::string path;  // its own: absolute, and nobody else can lead it elsewhere

  [[nodiscard]] std::string recording() const { return path + "/trace.db"; }
  /// Of the profiler files at the latest hang.
  [[nodiscard]] std::string hang_recording() const { return path + "/hang.db"; }
  /// Of the profiler files at the end, where the tracer has not read them.
  [[nodiscard]] std::string profiler_recording() const { return path + "/profiler.db"; }
  [[nodiscard]] std::string profiler_folder() const { return path + "/profiler"; }
  [[nodiscard]] std::string findings() const { return path + "/findings.json"; }
  /// As NCCL_DEBUG_FILE has it: %h and %p are the host and the process.
  [[nodiscard]] std::string log_pattern() const;
  /// Whether any process of the job wrote NCCL's log there.
  [[nodiscard]] bool has_logs() const;
  /// Takes away an empty rings folder, the plugin's copy, and the folder itself if nothing else is in it.
  void remove_if_empty() const;
  /// The same with what was recorded: the job was never started.
  void discard() const;
  /// All is written: who called us through sudo gets it.
  void hand_over() const { own.hand_over(); }
};

/// What the folder is called by default: it distinguishes nodes.
std::string default_run_folder(const std::string& node);

/// Makes `wanted`, or where that holds an earlier run `wanted`-2, -3 ... Of several launchers that want one folder at a
/// time each gets its own, also on a file system over the network. A folder of somebody else, or one that others can
/// write into or exchange, is an error.
Result<RunFolder> claim_run_folder(const std::string& wanted, Readers readers = Readers::kOwner);

/// A new one where temporary files belong, with `wanted`'s last part in its name.
Result<RunFolder> temporary_run_folder(const std::string& wanted, Readers readers = Readers::kOwner);

}  // namespace stalltrace::launch
