// SPDX-License-Identifier: Apache-2.0
// A tool of the MCP server. A new tool is a file in this folder and a row in registry.cpp.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "serve/json/json.h"
#include "serve/json/schema.h"
#include "serve/recordings.h"

namespace stalltrace::serve::mcp {

struct Answer {
  Json data;         // an object, as the tool's output schema says
  std::string text;  // one or two sentences for people, without any text from a recording
};

struct Tool {
  std::string name;
  std::string title;
  std::string description;
  Json input;  // JSON Schemas
  Json output;
  /// `arguments` match `input`. Only reads.
  Result<Answer> (*call)(Recordings& recordings, const Json& arguments) = nullptr;
};

/// In the order in which they are of use.
std::vector<Tool> all_tools();

Tool health_tool();
Tool findings_tool();
Tool finding_tool();
Tool why_tool();
Tool slowest_tool();
Tool who_waits_tool();
Tool ranks_tool();
Tool links_tool();
Tool stacks_tool();
Tool compare_tool();
Tool sql_tool();

}  // namespace stalltrace::serve::mcp
