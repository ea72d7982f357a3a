// SPDX-License-Identifier: Apache-2.0
// Folders in memory for the profiler files of runs: one for each launcher, of its user alone. Those whose launcher was
// killed stay, since their files show why the job ended, but not for ever: they take memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/files/own_folder.h"
#include "base/result.h"

namespace stalltrace::launch {

/// Makes `memory`/stalltrace-run-XXXXXX, mode 0700, locked while its launcher lives. An error says why the profiler
/// files should not go there: it is no file system in memory, or has less room than they and NCCL need.
Result<OwnFolder> make_memory_folder(const std::string& memory);

/// Notes in one line where profiler files of this user's earlier launchers are that were killed. Removed are those
/// without files, those of three days ago, and the oldest once all together take more than a gigabyte or an eighth of
/// the file system, as the plugin does with files in /dev/shm itself.
void report_of_earlier_folders(const std::string& memory, const std::function<void(const std::string&)>& note,
                               uint64_t oldest_ns = 3 * 24 * 3600 * uint64_t{kNsPerSecond});

}  // namespace stalltrace::launch
