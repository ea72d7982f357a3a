// SPDX-License-Identifier: Apache-2.0
// MCP over standard input and output: one message a line.
#pragma once

#include "base/result.h"
#include "serve/mcp/server.h"

namespace stalltrace::serve::mcp {

/// Serves until `in` ends and everything was answered, or no process reads `out` any more: neither is an error. Reads
/// ahead of the request that is being answered, so that one that waits can be cancelled.
Status serve_stream(Server& server, int in, int out);

}  // namespace stalltrace::serve::mcp
