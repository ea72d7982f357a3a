// SPDX-License-Identifier: Apache-2.0
// Records of the scheduler → rows of `wait_span`.
#pragma once

#include <cstdint>

#include "model/events.h"
#include "wire/scheduler.h"

namespace stalltrace::capture {

WaitSpan decode_wait(const st_wait& record, NodeId node, int64_t utc_offset_ns);

/// A wait that has not ended: what the thread is off the CPU for, and since when.
WaitSpan decode_open_wait(const st_thread_listing& thread, NodeId node, int64_t utc_offset_ns);

}  // namespace stalltrace::capture
