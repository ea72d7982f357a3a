// SPDX-License-Identifier: Apache-2.0
// Profiler files of dead processes are kept for diagnosis, within limits. Called under the plugin's lock.
#pragma once

#include <cstdint>

namespace stalltrace::plugin {

inline constexpr uint64_t kOldFilesBudget_bytes = 1ULL << 30;
/// Applies to files in memory. On a disk they use no memory, and their user removes them.
inline constexpr uint64_t kOldestFile_ns = 3ULL * 24 * 3600 * 1'000'000'000;

/// Removes this user's files in the folder whose writers have ended, oldest first, until the rest of them takes no more
/// than the budget or an eighth of the file system. In memory, also removes those whose processes gave the last sign of
/// life three days ago.
void remove_old_files(const char* folder, uint64_t budget_bytes = kOldFilesBudget_bytes,
                      uint64_t oldest_ns = kOldestFile_ns);

}  // namespace stalltrace::plugin
