// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp/message.h"

#include <utility>

namespace stalltrace::serve::mcp {
namespace {

bool is_version_2(const Json& message) {
  const Json* version = message.find("jsonrpc");
  return version != nullptr && version->text() != nullptr && *version->text() == "2.0";
}

}  // namespace

std::unexpected<ProtocolError> refuse(ErrorCode code, std::string message, std::optional<Json> data) {
  return std::unexpected(ProtocolError{code, std::move(message), std::move(data)});
}

std::optional<Json> id_of(const Json& message) {
  const Json* id = message.find("id");
  const bool valid = id != nullptr && (id->integer() != nullptr || id->text() != nullptr);
  return valid ? std::optional(*id) : std::nullopt;
}

bool is_response(const Json& message) {
  return message.find("method") == nullptr && (message.find("result") != nullptr || message.find("error") != nullptr);
}

Answered<Message> read_message(const Json& message) {
  if (!message.is_object()) {
    return refuse(ErrorCode::kInvalidRequest, "a message is an object");
  }
  if (!is_version_2(message)) {
    return refuse(ErrorCode::kInvalidRequest, "jsonrpc is not \"2.0\"");
  }
  const Json* id = message.find("id");
  if (id != nullptr && !id_of(message)) {
    return refuse(ErrorCode::kInvalidRequest, "id is neither an integer nor a text");
  }
  const Json* method = message.find("method");
  if (method == nullptr || method->text() == nullptr) {
    return refuse(ErrorCode::kInvalidRequest, "method is no text");
  }
  const Json* params = message.find("params");
  if (params != nullptr && params->is_null()) {
    params = nullptr;
  }
  if (params != nullptr && !params->is_object()) {
    return refuse(ErrorCode::kInvalidParams, "params is no object");
  }
  Message read{.id = id_of(message), .method = *method->text()};
  if (params != nullptr) {
    read.params = *params;
  }
  return read;
}

Json response(const Json& id, Json result) {
  return Json::object({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}});
}

Json response(const std::optional<Json>& id, const ProtocolError& error) {
  Json json = Json::object({{"jsonrpc", "2.0"}});
  if (id) {
    json.set("id", *id);
  }
  Json body = Json::object({{"code", static_cast<int>(error.code)}, {"message", error.message}});
  if (error.data) {
    body.set("data", *error.data);
  }
  json.set("error", std::move(body));
  return json;
}

}  // namespace stalltrace::serve::mcp
