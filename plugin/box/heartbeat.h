// SPDX-License-Identifier: Apache-2.0
// The process's heartbeat (plugin/wire/blackbox.h): a thread that does nothing but wake four times a second and record
// that in the box, and how long it did not. start, stop and forget are called under the plugin's lock; nobody waits for
// the thread but stop, which wakes it.
#pragma once

#include "plugin/box/box.h"

namespace stalltrace::plugin {

/// Without a thread, where the system gives none, the box has no heartbeat.
void start_heartbeat(Box& box);
void stop_heartbeat();
/// In a fork's child, where the thread does not exist.
void forget_heartbeat();

}  // namespace stalltrace::plugin
