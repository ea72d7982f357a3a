// SPDX-License-Identifier: Apache-2.0
// Flags of the subcommands that write or print data, for the protection of secrets: who may read it, and what is
// hidden.
#pragma once

#include "base/files/own_folder.h"
#include "base/process/procfs.h"
#include "cli/framework/flag.h"

namespace stalltrace::cli {

class Privacy {
 public:
  /// --group-readable
  Flag group_flag();
  /// --world-readable
  Flag readers_flag();
  /// --whole-commands
  Flag commands_flag();

  [[nodiscard]] Readers readers() const {
    return world_readable_ ? Readers::kAllUsers : group_readable_ ? Readers::kGroup : Readers::kOwner;
  }
  [[nodiscard]] CommandLines commands() const { return whole_ ? CommandLines::kWhole : CommandLines::kRedacted; }

 private:
  bool group_readable_ = false;
  bool world_readable_ = false;
  bool whole_ = false;
};

}  // namespace stalltrace::cli
