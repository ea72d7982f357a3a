// SPDX-License-Identifier: Apache-2.0
// Hands a recording over to a folder, which may be on a file server that fails or hangs.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/files/own_folder.h"
#include "base/result.h"

namespace stalltrace::cli {

inline constexpr int64_t kPushTimeoutNs = 60 * kNsPerSecond;

/// Tries again, after longer and longer pauses, until it succeeds or `timeout_ns` is over. In a child, so that a file
/// server that hangs costs no more than that time. Returns the line to print. An error leaves the recording as it is.
/// For one thread, while no other holds a lock.
Result<std::string> push_in_child(const std::string& recording, const std::string& folder, Readers readers,
                                  int64_t timeout_ns);

}  // namespace stalltrace::cli
