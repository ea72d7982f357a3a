// SPDX-License-Identifier: Apache-2.0
// An MCP server over recordings: what each method answers. Knows nothing of the transport; a transport keeps a Session
// and passes messages.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/mcp/era.h"
#include "serve/mcp/message.h"
#include "serve/mcp/tools/tool.h"
#include "serve/recordings.h"

namespace stalltrace::serve::mcp {

/// One thread at a time; with turns, several at once.
class Server {
 public:
  /// `recordings` must outlive the server, as must `turns`: a thread holds it while it reads recordings, a tool waits
  /// for it. Null: no other process reads them.
  explicit Server(Recordings& recordings, std::timed_mutex* turns = nullptr);

  /// Answers a request; none for a notification. `session` changes by `initialize`.
  std::optional<Json> answer(const Message& message, Session& session);

  [[nodiscard]] const std::vector<Tool>& tools() const { return tools_; }

 private:
  Answered<Json> result_of(const Message& message, Session& session);
  Answered<Json> initialize(const Message& message, Session& session);
  Answered<Json> list_tools() const;
  Answered<Json> call_tool(const Json& params);

  Recordings& recordings_;
  std::timed_mutex* turns_;
  std::vector<Tool> tools_;
  std::string instructions_;
};

}  // namespace stalltrace::serve::mcp
