// SPDX-License-Identifier: Apache-2.0
// Folders in memory for the profiler files of runs: one per launcher, accessible only to its user. Folders of killed
// launchers are kept, since their files show why the job ended, but not forever, because they use memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/files/own_folder.h"
#include "base/result.h"

namespace stalltrace::launch {

/// Creates `memory`/stalltrace-run-XXXXXX, mode 0700, locked while its launcher lives. An error says why the profiler
/// files should not be there: it is no file system in memory, or it has less room than they and NCCL need.
Result<OwnFolder> make_memory_folder(const std::string& memory);

/// Notes in one line the folders with profiler files of this user's earlier, killed launchers. Removes folders without
/// files, folders older than three days, and the oldest ones while all together use more than a gigabyte or an eighth
/// of the file system (the plugin's own limits for files in /dev/shm).
void report_of_earlier_folders(const std::string& memory, const std::function<void(const std::string&)>& note,
                               uint64_t oldest_ns = 3 * 24 * 3600 * uint64_t{kNsPerSecond});

}  // namespace stalltrace::launch
