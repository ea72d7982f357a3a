// SPDX-License-Identifier: Apache-2.0
// The prompts of the MCP server: how to go about a symptom.
#pragma once

#include "serve/mcp/message.h"

namespace stalltrace::serve::mcp {

Json list_prompts();
/// Errors: no such prompt, a wrong argument.
Answered<Json> get_prompt(const Json& params);

}  // namespace stalltrace::serve::mcp
