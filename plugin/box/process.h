// SPDX-License-Identifier: Apache-2.0
// What the header holds about the process that writes. Called under the plugin's lock.
#pragma once

#include "plugin/wire/blackbox.h"

namespace stalltrace::plugin {

/// When the process started, in clock ticks since boot: field 22 of /proc/self/stat; 0 where it cannot be read.
uint64_t process_start_ticks();

/// Fills everything of the header that is about the process, its host and its job.
void describe_process(st_box_header& header);

}  // namespace stalltrace::plugin
