// SPDX-License-Identifier: Apache-2.0
// Invariants of every row, whatever bytes it was made from: it may be wrong, but never out of range.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "model/memory_source.h"

namespace stalltrace::fuzz {

/// Says where it was called from, as one abort of a function may stand for several.
inline void require(bool holds, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!holds) {
    std::fprintf(stderr, "%s:%d: does not hold\n", file, line);
    std::abort();
  }
}

/// `only_files`: no row comes from probes, so each row with an end has it from a file.
inline void check_rows(MemorySource& rows, bool only_files) {
  const Status visited = rows.collectives({}, [only_files](const Collective& row) {
    require(row.timestamp_ns > 0 && row.duration_ns.value_or(0) >= 0 && row.launch_ns.value_or(0) >= 0);
    require(row.rank.value_or(0) >= 0 && row.nranks.value_or(1) > 0 && row.bytes >= 0 && row.seq.value_or(0) >= 0);
    require(!only_files || row.duration_ns.has_value() == (row.completion == Completion::kProfiler));
    require(row.completion != Completion::kProfiler || row.duration_ns.has_value());
  });
  require(visited.has_value());
  const Status steps = rows.proxy_steps({}, [](const ProxyStep& row) {
    require(row.timestamp_ns > 0 && row.duration_ns.value_or(0) >= 0 && row.step >= 0 && row.channel >= 0);
    require(row.gpu_wait_ns >= 0 && row.peer_wait_ns >= 0 && row.network_wait_ns >= 0);
    require(row.rank.value_or(0) >= 0 && row.peer.value_or(0) >= 0);
  });
  require(steps.has_value());
  const Status waits = rows.wait_spans({}, [](const WaitSpan& row) {
    require(row.timestamp_ns > 0 && row.window_ns > 0 && row.waited_ns >= 0 && row.waited_ns <= row.window_ns);
  });
  require(waits.has_value());
}

}  // namespace stalltrace::fuzz
