// SPDX-License-Identifier: Apache-2.0
// The resources of the MCP server: pages of docs/, which travel inside the binary.
#pragma once

#include "serve/mcp/era.h"
#include "serve/mcp/message.h"

namespace stalltrace::serve::mcp {

Json list_resources();
/// stalltrace://causes/{cause}
Json list_resource_templates();
/// Errors: no text as uri; no such resource, which the eras number differently.
Answered<Json> read_resource(const Json& params, Era era);

}  // namespace stalltrace::serve::mcp
