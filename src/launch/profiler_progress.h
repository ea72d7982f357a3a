// SPDX-License-Identifier: Apache-2.0
// The progress of a job from its profiler files, for a job that may not be traced. Single-threaded.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "blackbox/session.h"
#include "launch/hang_watch.h"

namespace stalltrace::launch {

/// The profiler files in a folder, including those that appear later.
class ProfilerProgress {
 public:
  using Wanted = std::function<bool(const blackbox::ProfilerFileReader&)>;

  /// `wanted` selects the files of the job; empty: all files.
  explicit ProfilerProgress(std::string folder, Wanted wanted = {})
      : folder_(std::move(folder)), wanted_(std::move(wanted)) {}

  /// The current state of all files together. A file that can't be read is left out.
  Progress read();

 private:
  void find_files();

  std::string folder_;
  Wanted wanted_;
  std::map<std::string, blackbox::ProfilerSession> sessions_;  // by path
  std::set<std::string> left_out_;
};

}  // namespace stalltrace::launch
