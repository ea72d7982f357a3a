// SPDX-License-Identifier: Apache-2.0
// One lab at a time: a lock file under /run/stalltrace-lab that names its holder. The kernel releases the lock when the
// holder ends for any reason.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::lab {

inline constexpr std::string_view kStateFolder = "/run/stalltrace-lab";

class LabLock {
 public:
  /// Takes the lock, or reports which process has it.
  static Result<LabLock> take();

  LabLock(LabLock&&) = default;
  LabLock& operator=(LabLock&&) = delete;
  /// Removes the lock file, and the folder if nothing else is in it.
  ~LabLock();

 private:
  explicit LabLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace stalltrace::lab
