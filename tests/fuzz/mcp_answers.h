// SPDX-License-Identifier: Apache-2.0
// What every answer of the MCP server must be, whatever was asked and whatever is in the recording.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "serve/json/json.h"
#include "serve/mcp/server.h"
#include "serve/recordings.h"
#include "tests/fuzz/rows.h"

namespace stalltrace::fuzz {

/// More than an answer can have: the longest resource, and a batch of answers.
inline constexpr serve::JsonLimits kAnswerLimits{.depth = 64, .values = 1'000'000, .members = 1000};
/// Of one tool's answer, which is in it twice.
inline constexpr size_t kMostAnswerBytes = 160 << 10;

/// A result of tools/call: a failure in words, or what the tool's output schema says.
inline void check_tool_result(const serve::mcp::Tool& tool, const serve::Json& result) {
  const serve::Json* failed = result.find("isError");
  require(failed != nullptr && failed->boolean() != nullptr && result.find("content") != nullptr);
  const serve::Json* data = result.find("structuredContent");
  require(*failed->boolean() == (data == nullptr));
  require(data == nullptr ||
          serve::schema::problem_with(*data, tool.output, serve::schema::Strictness::kNoOther).empty());
  require(result.dump().size() < kMostAnswerBytes);
}

/// A line that a client reads.
inline void check_line(std::string_view line) {
  require(line.find('\n') == std::string_view::npos && printable(line) == line);
  const Result<serve::Json> json = serve::parse_json(line, kAnswerLimits);
  require(json.has_value() && (json->is_object() || json->is_array()));
  if (json->is_object()) {
    require((json->find("result") == nullptr) != (json->find("error") == nullptr));
  }
}

/// Asks each tool in some ways.
inline void ask_all_tools(const std::string& path) {
  using serve::Json;
  const std::unique_ptr<serve::Recordings> recordings = serve::recordings_in_files({path});
  serve::mcp::Server server(*recordings);
  serve::mcp::Session session{.legacy_version = "2025-11-25"};
  const std::vector<std::pair<std::string, Json>> calls{
      {"health", Json::object()},
      {"findings", Json::object()},
      {"why", Json::object({{"event", "5:101"}})},
      {"slowest", Json::object({{"by", "wait_for_last_rank"}})},
      {"slowest", Json::object({{"by", "total"}, {"from", "+1s"}})},
      {"who_waits", Json::object()},
      {"who_waits", Json::object({{"time", "+1s"}})},
      {"ranks", Json::object()},
      {"ranks", Json::object({{"rank", 0}})},
      {"links", Json::object()},
      {"stacks", Json::object()},
      {"compare", Json::object({{"a", Json::object({{"to", "+1s"}})}, {"b", Json::object({{"from", "+1s"}})}})},
      {"sql", Json::object({{"sql", "SELECT * FROM node"}})}};
  for (const auto& [name, arguments] : calls) {
    const auto tool = std::ranges::find(server.tools(), name, &serve::mcp::Tool::name);
    require(tool != server.tools().end());
    const std::optional<Json> answer = server.answer(
        {.id = Json(1), .method = "tools/call", .params = Json::object({{"name", name}, {"arguments", arguments}})},
        session);
    require(answer && answer->find("result") != nullptr);
    check_line(answer->dump());
    check_tool_result(*tool, *answer->find("result"));
  }
}

}  // namespace stalltrace::fuzz
