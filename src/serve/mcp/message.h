// SPDX-License-Identifier: Apache-2.0
// Messages of the Model Context Protocol: JSON-RPC 2.0 requests, notifications, results and errors.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include "serve/json/json.h"

namespace stalltrace::serve::mcp {

enum class ErrorCode : int16_t {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kInternalError = -32603,
  kResourceNotFound = -32002,  // until 2025-11-25
  kHeaderMismatch = -32020,    // from 2026-07-28, as the next one
  kUnsupportedVersion = -32022,
};

struct ProtocolError {
  ErrorCode code = ErrorCode::kInternalError;
  std::string message;
  std::optional<Json> data;
};

template <typename T>
using Answered = std::expected<T, ProtocolError>;
std::unexpected<ProtocolError> refuse(ErrorCode code, std::string message, std::optional<Json> data = {});

struct Message {
  std::optional<Json> id;  // an integer or a text; none: a notification
  std::string method;
  Json params = Json::object();
};

/// The id of a message, if it has a valid one, whatever else is wrong with it.
std::optional<Json> id_of(const Json& message);
/// True for the answer to a request: this server makes none, and ignores them.
bool is_response(const Json& message);
Answered<Message> read_message(const Json& message);

Json response(const Json& id, Json result);
/// Without an id where the request's is not known, as MCP's schema has it since 2025-11-25.
Json response(const std::optional<Json>& id, const ProtocolError& error);

}  // namespace stalltrace::serve::mcp
