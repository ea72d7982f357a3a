// SPDX-License-Identifier: Apache-2.0
// The header's description of the writing process. Called under the plugin's lock.
#pragma once

#include "plugin/wire/blackbox.h"

namespace stalltrace::plugin {

/// Start of the process in clock ticks since boot: field 22 of /proc/self/stat; 0 if it can't be read.
uint64_t process_start_ticks();

/// Fills the header's fields about the process, its host and its job.
void describe_process(st_box_header& header);

}  // namespace stalltrace::plugin
