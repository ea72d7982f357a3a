// SPDX-License-Identifier: Apache-2.0
// The process's heartbeat (plugin/wire/blackbox.h): a thread that wakes four times a second and records that in the
// file, with the times when it could not. start, stop and forget are called under the plugin's lock; only stop waits
// for the thread, which it wakes.
#pragma once

#include "plugin/box/box.h"

namespace stalltrace::plugin {

/// Without a thread, where the system gives none, the file has no heartbeat.
void start_heartbeat(Box& box);
void stop_heartbeat();
/// For a fork's child, where the thread does not exist.
void forget_heartbeat();

}  // namespace stalltrace::plugin
