// SPDX-License-Identifier: Apache-2.0
// What /proc says about processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stalltrace::lab {

/// Clock ticks since boot at which the process started; none if there is none, or only its zombie.
std::optional<uint64_t> process_start_time(int pid);

/// The state letter of /proc/PID/stat: 'R', 'S', 'T', 'Z', ...; none without such a process.
std::optional<char> process_state(int pid);

/// Its threads at this moment; empty without such a process.
std::vector<int> threads_of(int pid);

/// All processes in the network namespace that `netns_path` names.
std::vector<int> processes_in(const std::string& netns_path);

}  // namespace stalltrace::lab
