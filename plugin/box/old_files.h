// SPDX-License-Identifier: Apache-2.0
// Profiler files of processes that are gone stay, since they show why; not forever. Called under the plugin's
// lock.
#pragma once

#include <cstdint>

namespace stalltrace::plugin {

inline constexpr uint64_t kOldFilesBudget_bytes = 1ULL << 30;
/// In memory. On a disk they cost nobody's memory, and are their user's to remove.
inline constexpr uint64_t kOldestFile_ns = 3ULL * 24 * 3600 * 1'000'000'000;

/// Removes this user's files in the folder whose writers are gone, the oldest first, until the rest of those takes no
/// more than the budget or an eighth of the file system. In memory also those whose processes gave the last sign of
/// life three days ago.
void remove_old_files(const char* folder, uint64_t budget_bytes = kOldFilesBudget_bytes,
                      uint64_t oldest_ns = kOldestFile_ns);

}  // namespace stalltrace::plugin
