// SPDX-License-Identifier: Apache-2.0
// Counts the collective calls that end while this program watches, by tracing as `stalltrace trace` does: calls that
// began before are not seen. For jobs whose data use no sockets, it is the only sign of progress.
#pragma once

#include <cstdint>
#include <span>

#include "autopsy/host/take_snapshot.h"
#include "autopsy/snapshot.h"

namespace stalltrace::autopsy {

/// Traces these ranks for `duration_ns`. Where the kernel or missing privilege refuses that, it only waits for as long,
/// and the result has the reason.
Traced watch_calls(std::span<const RankToRead> ranks, int64_t duration_ns);

/// Only waits.
Traced watch_nothing(int64_t duration_ns);

}  // namespace stalltrace::autopsy
