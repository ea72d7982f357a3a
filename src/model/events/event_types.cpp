// SPDX-License-Identifier: Apache-2.0
// Copies and moves of Event, compiled once.
#include "model/event_types.h"

namespace stalltrace {

Event::Event(const Event&) = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(const Event&) = default;
Event& Event::operator=(Event&&) noexcept = default;
Event::~Event() = default;

}  // namespace stalltrace
