// SPDX-License-Identifier: Apache-2.0
// Processes, from /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stalltrace::lab {

/// Start of the process in clock ticks since boot; nullopt if it does not exist or is a zombie.
std::optional<uint64_t> process_start_time(int pid);

/// The state letter of /proc/PID/stat: 'R', 'S', 'T', 'Z', ...; none without such a process.
std::optional<char> process_state(int pid);

/// The current threads of a process; empty if it does not exist.
std::vector<int> threads_of(int pid);

/// All processes in the network namespace that `netns_path` names.
std::vector<int> processes_in(const std::string& netns_path);

}  // namespace stalltrace::lab
