// SPDX-License-Identifier: Apache-2.0
// A temporary folder for a process that gives up the right to remove it (base/rights/confinement.h).
#pragma once

#include <sys/types.h>

#include <string>

#include "base/files/own_folder.h"
#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

/// Is removed with all that is in it when this object is destroyed, or the process ends in any way: a child process,
/// which does nothing else, waits for that.
class DisposableFolder {
 public:
  /// To be called before the first thread is started. In the folder for temporary files (OwnFolder::make_temporary).
  static Result<DisposableFolder> make(const std::string& prefix);
  DisposableFolder(DisposableFolder&&) noexcept = default;
  DisposableFolder& operator=(DisposableFolder&&) noexcept = default;  // to an empty one only
  ~DisposableFolder();

  [[nodiscard]] const std::string& path() const { return folder_.path(); }

 private:
  DisposableFolder(OwnFolder folder, UniqueFd in_use, pid_t remover)
      : folder_(std::move(folder)), in_use_(std::move(in_use)), remover_(remover) {}

  OwnFolder folder_;
  UniqueFd in_use_;  // its end is what the remover waits for
  pid_t remover_;
};

}  // namespace stalltrace
