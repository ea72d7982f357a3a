// SPDX-License-Identifier: Apache-2.0
// Hands a recording over to a folder, which may be on a file server that fails or hangs, or to a server that takes it
// in (serve --accept).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/files/own_folder.h"
#include "base/result.h"
#include "fleet/client.h"
#include "fleet/node_list.h"

namespace stalltrace::cli {

inline constexpr int64_t kPushTimeoutNs = 60 * kNsPerSecond;

/// Where to: a folder, or a server by its URL.
struct PushTarget {
  std::string shown;  // as it was given
  std::optional<fleet::NodeAddress> server;

  /// Errors (kUsage): a URL that is not one server's.
  static Result<PushTarget> parse(const std::string& text);
};

/// Gives what a client of the server needs; called in the child, so that the token is in no other process.
using LoadClient = std::function<Result<fleet::ClientOptions>()>;

/// Whether `load` gives a client that this server may take something from (fleet::check_push), in a child.
Status check_client(const LoadClient& load, const fleet::NodeAddress& server);

/// Tries again, after longer and longer pauses, until it succeeds or `timeout_ns` is over; at once gives up what no
/// waiting makes right. In a child, so that a file server or a host that hangs costs no more than that time. Returns
/// the line to print. An error leaves the recording as it is. For one thread, while no other holds a lock. `readers`:
/// of the copy in a folder.
Result<std::string> push_in_child(const std::string& recording, const PushTarget& target, const LoadClient& load,
                                  Readers readers, int64_t timeout_ns);

}  // namespace stalltrace::cli
