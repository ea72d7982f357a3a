// SPDX-License-Identifier: Apache-2.0
// The ring of ended events, and its clock anchors. Any thread; no locks, no waiting.
#pragma once

#include "plugin/box/box.h"

namespace stalltrace::plugin {

/// Copies an event into the ring, over the oldest one. Only the caller may change the event in the meantime.
void append(Box& box, const Event& event);

/// Stores CLOCK_MONOTONIC and CLOCK_REALTIME read at one moment.
void anchor_clocks(Box& box);

/// The same, if the last anchor is at least ten seconds old.
void refresh_anchor(Box& box, uint64_t monotonic_now_ns);

}  // namespace stalltrace::plugin
