// SPDX-License-Identifier: Apache-2.0
// Scheduler records → rows of `wait_span`.
#pragma once

#include <cstdint>

#include "model/events.h"
#include "wire/scheduler.h"

namespace stalltrace::capture {

WaitSpan decode_wait(const st_wait& record, NodeId node, int64_t utc_offset_ns);

/// A wait that has not ended: its kind and start.
WaitSpan decode_open_wait(const st_thread_listing& thread, NodeId node, int64_t utc_offset_ns);

}  // namespace stalltrace::capture
