// SPDX-License-Identifier: Apache-2.0
// Does a job still get on? By its profiler files: what a job shows that may not be traced. One thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "blackbox/format/reader.h"
#include "launch/hang_watch.h"

namespace stalltrace::launch {

/// The profiler files in a folder, those that are still to appear included.
class ProfilerProgress {
 public:
  using Wanted = std::function<bool(const st_box_header&)>;

  /// `wanted` tells boxes of the job from others there; empty: all are.
  explicit ProfilerProgress(std::string folder, Wanted wanted = {})
      : folder_(std::move(folder)), wanted_(std::move(wanted)) {}

  /// Of all boxes together, as of now. One that can't be read is left out.
  Progress read();

 private:
  void find_boxes();

  std::string folder_;
  Wanted wanted_;
  std::map<std::string, blackbox::BoxReader> boxes_;  // by path
  std::set<std::string> left_out_;
};

}  // namespace stalltrace::launch
