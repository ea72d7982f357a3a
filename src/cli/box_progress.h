// SPDX-License-Identifier: Apache-2.0
// Does a job still get on? By its black boxes: what a job shows that may not be traced. One thread.
#pragma once

#include <map>
#include <set>
#include <string>

#include "blackbox/reader.h"
#include "cli/progress.h"

namespace stalltrace::cli {

/// The black boxes in a folder, those that are still to appear included.
class BoxProgress {
 public:
  explicit BoxProgress(std::string folder) : folder_(std::move(folder)) {}

  /// Of all boxes together, as of now. One that can't be read is left out.
  Progress read();

 private:
  void find_boxes();

  std::string folder_;
  std::map<std::string, blackbox::BoxReader> boxes_;  // by path
  std::set<std::string> unreadable_;
};

}  // namespace stalltrace::cli
