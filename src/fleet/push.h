// SPDX-License-Identifier: Apache-2.0
// Hands recordings and findings over to a server that takes them in (serve --accept). One try each, on the calling
// thread: pauses and further tries are the caller's.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fleet/client.h"
#include "fleet/node_list.h"

namespace stalltrace::fleet {

/// "https://gpu7:7700", "http://127.0.0.1:7700"; the port is 7700 where there is none.
[[nodiscard]] bool is_url(std::string_view text);
/// Errors (kUsage): another form, several nodes, or http:// to another host than a number of loopback.
Result<NodeAddress> parse_push_url(std::string_view text);

/// Whether anything can come of a push there with these options, before anything is asked: what takes recordings in
/// needs a token, and TLS something to know its certificate by. Errors are kUsage.
Status check_push(const NodeAddress& server, const ClientOptions& options);

struct TakenIn {
  std::string name;        // of the file there
  bool was_there = false;  // with the same bytes
};

/// How a try failed.
struct PushFailure {
  Error error;
  bool may_pass = false;  // by waiting: no connection, a busy server, no room; not a wrong token or certificate
};

/// An open file that is sent compressed. It is compressed once for its size and again for each try: a request has to
/// announce the size, and no copy needs room on a disk.
struct Sendable {
  int file = -1;
  int64_t compressed_bytes = 0;
};
Result<Sendable> prepare_to_send(int file);

/// Sends the recording within `options.limit`. `node` is looked up here (resolve.h).
std::expected<TakenIn, PushFailure> push_recording(const Sendable& recording, NodeAddress node,
                                                   const ClientOptions& options);

/// Sends lines of JSON (docs/serve.md), at most 256 KiB together.
std::expected<TakenIn, PushFailure> push_findings(std::string lines, NodeAddress node, const ClientOptions& options);

}  // namespace stalltrace::fleet
