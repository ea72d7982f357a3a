// SPDX-License-Identifier: Apache-2.0
// Names of functions that a process made itself: /tmp/perf-PID.map, which CPython (3.12 on, with -X perf), Java, Node
// and other makers of code write for perf. Each line is "START SIZE NAME", in hexadecimal. Any user could have written
// it: it is read with limits, and only if the process's own user or root wrote it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/process/procfs.h"
#include "base/untrusted/mounts.h"

namespace stalltrace::stacks {

/// A larger file is not read: the newest names are at its end, and the older ones may no longer hold.
inline constexpr int64_t kMostPerfMapBytes = 32 << 20;

/// The names at these addresses; those without a name are missing. Lines may come in any order and overlap: the last
/// that covers an address names it, since memory is used again. Malformed lines are skipped. nullopt: the time was not
/// enough.
std::optional<std::map<uint64_t, std::string>> names_in_perf_map(std::string_view text,
                                                                 std::span<const uint64_t> addresses, int64_t most_ns);

/// The text of the process's own map, in its own mount namespace and by its own number; empty where there is none that
/// is to be trusted, or where it was last written before the process began: an earlier process had its number. Empty as
/// well if CLOCK_MONOTONIC passes `until_ns` while it is read.
std::string read_perf_map(const Procfs& procfs, Mounts& mounts, pid_t pid, int64_t until_ns);

}  // namespace stalltrace::stacks
