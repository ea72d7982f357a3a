// SPDX-License-Identifier: Apache-2.0
// The list of all MCP tools.
#include "serve/mcp/tools/tool.h"

namespace stalltrace::serve::mcp {

std::vector<Tool> all_tools() {
  return {health_tool(), findings_tool(), finding_tool(), why_tool(),     slowest_tool(), who_waits_tool(),
          ranks_tool(),  links_tool(),    stacks_tool(),  compare_tool(), sql_tool()};
}

}  // namespace stalltrace::serve::mcp
