// SPDX-License-Identifier: Apache-2.0
// An MCP server over recordings: what each method answers. Knows nothing of the transport; a transport keeps a Session
// and passes messages.
#pragma once

#include <optional>
#include <vector>

#include "serve/mcp/era.h"
#include "serve/mcp/message.h"
#include "serve/mcp/tools/tool.h"
#include "serve/recordings.h"

namespace stalltrace::serve::mcp {

/// One thread at a time.
class Server {
 public:
  /// `recordings` must outlive the server.
  explicit Server(Recordings& recordings);

  /// Answers a request; none for a notification. `session` changes by `initialize`.
  std::optional<Json> answer(const Message& message, Session& session);

  [[nodiscard]] const std::vector<Tool>& tools() const { return tools_; }

 private:
  Answered<Json> result_of(const Message& message, Session& session);
  Answered<Json> initialize(const Message& message, Session& session);
  Answered<Json> list_tools() const;
  Answered<Json> call_tool(const Json& params);

  Recordings& recordings_;
  std::vector<Tool> tools_;
};

}  // namespace stalltrace::serve::mcp
