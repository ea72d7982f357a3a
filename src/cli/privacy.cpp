// SPDX-License-Identifier: Apache-2.0
#include "cli/privacy.h"

namespace stalltrace::cli {

Flag Privacy::group_flag() {
  return switch_flag("--group-readable", "let the group of the files (that of stalltrace's process) read them, too",
                     &group_readable_);
}

Flag Privacy::readers_flag() {
  return switch_flag("--world-readable", "let every user of the host read what is written; else its owner alone",
                     &world_readable_);
}

Flag Privacy::commands_flag() {
  return switch_flag("--whole-commands", "keep passwords, keys and tokens in command lines; else *** stands for them",
                     &whole_);
}

}  // namespace stalltrace::cli
