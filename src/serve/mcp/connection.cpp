// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace stalltrace::serve::mcp {
namespace {

Json error_without_id(ErrorCode code, std::string message) {
  return response(std::nullopt, ProtocolError{code, std::move(message), {}});
}

bool is_method(const Json& json, std::string_view method) {
  const Json* name = json.find("method");
  return name != nullptr && name->text() != nullptr && *name->text() == method;
}

}  // namespace

void Connection::receive_too_long() {
  ready_.push_back(error_without_id(ErrorCode::kInvalidRequest,
                                    fmt::format("the message is longer than {}", format_size(kMostLineBytes))));
}

void Connection::receive(std::string_view line) {
  if (trim(line).empty()) {
    return;
  }
  Result<Json> json = parse_json(line);
  if (!json) {
    ready_.push_back(error_without_id(ErrorCode::kParseError, json.error().what));
  } else if (json->is_array()) {
    waiting_.push_back(*std::move(json));  // whether the session has batches is known when its turn comes
  } else {
    receive_message(*std::move(json));
  }
}

void Connection::receive_message(Json json) {
  if (is_response(json)) {
    return;
  }
  if (is_method(json, "notifications/cancelled") && !id_of(json)) {
    if (const Json* params = json.find("params")) {
      cancel(*params);
    }
    return;
  }
  if (const std::optional<Json> id = id_of(json); id && waits(*id)) {
    ready_.push_back(
        error_without_id(ErrorCode::kInvalidRequest, "the id is that of a request that is not answered yet"));
    return;
  }
  if (is_method(json, "ping")) {  // needs no work: a client that asks whether we live gets its answer before others
    if (std::optional<Json> pong = answer(json)) {
      ready_.push_back(*std::move(pong));
    }
    return;
  }
  waiting_.push_back(std::move(json));
}

/// What is being answered can't be stopped; what waits is dropped, and gets no answer, as MCP has it.
void Connection::cancel(const Json& params) {
  const Json* id = params.find("requestId");
  if (id == nullptr) {
    return;
  }
  std::erase_if(waiting_, [&](const Json& json) {
    const Json* own = json.find("id");
    return own != nullptr && *own == *id && !is_method(json, "initialize");
  });
}

bool Connection::waits(const Json& id) const {
  return std::ranges::any_of(waiting_, [&](const Json& json) {
    const Json* own = json.find("id");
    return own != nullptr && *own == id;
  });
}

std::optional<std::string> Connection::next() {
  if (!ready_.empty()) {
    const Json json = std::move(ready_.front());
    ready_.pop_front();
    return json.dump();
  }
  if (waiting_.empty()) {
    return std::nullopt;
  }
  const Json json = std::move(waiting_.front());
  waiting_.pop_front();
  const std::optional<Json> answered = json.is_array() ? answer_batch(json) : answer(json);
  return answered ? std::optional(answered->dump()) : std::nullopt;
}

std::optional<Json> Connection::answer(const Json& json) {
  const Answered<Message> message = read_message(json);
  return message ? server_.answer(*message, session_) : std::optional(response(id_of(json), message.error()));
}

std::optional<Json> Connection::answer_batch(const Json& batch) {
  if (session_.legacy_version != kBatchVersion) {
    return error_without_id(ErrorCode::kInvalidRequest,
                            fmt::format("several messages in one array are a thing of {} alone", kBatchVersion));
  }
  if (batch.size() == 0 || batch.size() > kMostInBatch) {
    return error_without_id(ErrorCode::kInvalidRequest, fmt::format("a batch has 1 to {} messages", kMostInBatch));
  }
  Json answers = Json::array();
  for (const Json& json : *batch.values()) {
    if (is_response(json)) {
      continue;
    }
    const bool opens = is_method(json, "initialize");  // must not be part of a batch
    std::optional<Json> one =
        opens ? response(id_of(json), ProtocolError{ErrorCode::kInvalidRequest, "initialize can't be in a batch", {}})
              : answer(json);
    if (one) {
      answers.push_back(*std::move(one));
    }
  }
  return answers.size() > 0 ? std::optional(std::move(answers)) : std::nullopt;
}

}  // namespace stalltrace::serve::mcp
