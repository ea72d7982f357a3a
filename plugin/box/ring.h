// SPDX-License-Identifier: Apache-2.0
// The ring of ended events, and the clock anchors that go with it. Any thread; no locks, no waiting.
#pragma once

#include "plugin/box/box.h"

namespace stalltrace::plugin {

/// Puts a copy of an event into the ring, over the oldest one. The caller alone may change the event in the meantime.
void append(Box& box, const Event& event);

/// Notes CLOCK_MONOTONIC and CLOCK_REALTIME side by side.
void anchor_clocks(Box& box);

/// The same, if the last anchor is ten seconds old.
void refresh_anchor(Box& box, uint64_t monotonic_now_ns);

}  // namespace stalltrace::plugin
