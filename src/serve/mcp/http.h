// SPDX-License-Identifier: Apache-2.0
// MCP over HTTP, at /mcp: one message a request, answered in JSON. There are no sessions and no streams of events, in
// neither era: a request carries its version in the header MCP-Protocol-Version. Who may ask is the HTTP server's
// matter (token, Host, Origin).
#pragma once

#include "serve/http_message.h"
#include "serve/mcp/server.h"

namespace stalltrace::serve::mcp {

/// Answers a POST. `server` must have turns, if this is called by several threads at once.
HttpAnswer answer_http(Server& server, const HttpRequest& request);

}  // namespace stalltrace::serve::mcp
