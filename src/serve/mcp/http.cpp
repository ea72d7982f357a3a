// SPDX-License-Identifier: Apache-2.0
// The rules are those of the specification's pages on Streamable HTTP, 2025-11-25 and 2026-07-28.
#include "serve/mcp/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/text.h"
#include "serve/mcp/connection.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr int kAccepted = 202;
constexpr int kBadRequest = 400;
constexpr int kNotFound = 404;
constexpr int kNotAcceptable = 406;
constexpr int kUnsupportedMediaType = 415;

/// Null: the request has none.
const std::string* header_of(const HttpRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? nullptr : &found->second;
}

/// "text/html" of "Text/HTML; charset=utf-8".
std::string media_type(std::string_view text) {
  std::string type(trim(text.substr(0, text.find(';'))));
  std::ranges::transform(type, type.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  return type;
}

bool takes_json(const HttpRequest& request) {
  const std::string* accept = header_of(request, "accept");
  if (accept == nullptr) {
    return true;
  }
  const auto types = split(*accept, ',');
  return std::ranges::any_of(types, [](std::string_view one) {
    const std::string type = media_type(one);
    return type == "application/json" || type == "application/*" || type == "*/*";
  });
}

HttpAnswer answer_with(int status, const Json& json) { return {.status = status, .body = json.dump() + "\n"}; }

HttpAnswer refusal(int status, const std::optional<Json>& id, const ProtocolError& error) {
  return answer_with(status, response(id, error));
}

/// Of a request's params: the version that it states; null: none.
const Json* stated_version(const Json& params) {
  const Json* meta = params.find("_meta");
  return meta == nullptr ? nullptr : meta->find(kVersionKey);
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c == '\t' || (c >= 0x20 && c < 0x7f); });
}

/// RFC 4648, section 4.
std::string in_base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view three = bytes.substr(at, 3);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < three.size() ? static_cast<unsigned char>(three[i]) : 0U);
    }
    for (size_t i = 0; i < 4; ++i) {
      text += i <= three.size() ? kLetters[bits >> (18 - 6 * i) & 0x3f] : '=';
    }
  }
  return text;
}

/// A header that stands for `value`: as it is, or as Base64 between =?base64? and ?=.
bool stands_for(std::string_view header, const std::string& value) {
  constexpr std::string_view kBegin = "=?base64?";
  constexpr std::string_view kEnd = "?=";
  if (!header.starts_with(kBegin) || !header.ends_with(kEnd) || header.size() < kBegin.size() + kEnd.size()) {
    return header == value && is_plain(header);
  }
  return header.substr(kBegin.size(), header.size() - kBegin.size() - kEnd.size()) == in_base64(value);
}

/// The name in a request's params that the header Mcp-Name repeats; null: none.
const Json* repeated_name(const Message& message) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kNames{
      {{"tools/call", "name"}, {"prompts/get", "name"}, {"resources/read", "uri"}}};
  const auto* const found =
      std::ranges::find(kNames, message.method, &std::pair<std::string_view, std::string_view>::first);
  return found == kNames.end() ? nullptr : message.params.find(found->second);
}

Answered<void> compare(const HttpRequest& request, const std::string& name, const Json& value) {
  const std::string* header = header_of(request, name);
  if (header != nullptr && value.text() != nullptr && stands_for(*header, *value.text())) {
    return {};
  }
  return refuse(
      ErrorCode::kHeaderMismatch,
      fmt::format("the header {} {}", name, header == nullptr ? "is missing" : "is not what the message has"));
}

/// Of 2026-07-28: what headers repeat has to be what the message says, so that a proxy that decides by headers
/// and the server see the same request.
Answered<void> compare_headers(const HttpRequest& request, const Message& message) {
  if (auto same = compare(request, "mcp-method", message.method); !same) {
    return same;
  }
  const Json* name = repeated_name(message);
  return name == nullptr ? Answered<void>() : compare(request, "mcp-name", *name);
}

/// The era of a request, and the session that its header stands for until 2025-11-25.
struct Opening {
  Session session;
  Era era = Era::kLegacy;
};

Answered<Opening> opening_of(const HttpRequest& request, const Message& message) {
  const std::string* version = header_of(request, "mcp-protocol-version");
  Opening opening;
  if (const Json* stated = stated_version(message.params)) {
    if (auto same = compare(request, "mcp-protocol-version", *stated); !same) {
      return std::unexpected(std::move(same.error()));
    }
  } else if (version == nullptr) {
    opening.session.legacy_version = kBatchVersion;  // as 2025-11-25 has it for clients that send none
  } else if (*version == legacy_version_for(*version)) {
    opening.session.legacy_version = *version;
  } else if (*version != kModernVersion) {
    return refuse(ErrorCode::kUnsupportedVersion, "this protocol version is not supported",
                  Json::object({{"supported", Json::array({kModernVersion})}, {"requested", *version}}));
  } else if (message.method == "initialize" || message.method == "ping") {
    return refuse(ErrorCode::kHeaderMismatch, fmt::format("{} has no such method", kModernVersion));
  }
  if (!message.id) {
    return opening;
  }
  auto era = era_of(message, opening.session);
  if (!era) {
    return std::unexpected(std::move(era.error()));
  }
  opening.era = *era;
  return opening;
}

/// A failure that 2026-07-28 gives a status of its own. Before, every answer to a request is 200.
int status_of(const Json& answer, Era era) {
  const Json* error = answer.find("error");
  const Json* code = error == nullptr ? nullptr : error->find("code");
  const bool unknown = code != nullptr && code->integer() != nullptr &&
                       *code->integer() == static_cast<int64_t>(ErrorCode::kMethodNotFound);
  return unknown && era == Era::kModern ? kNotFound : 200;
}

HttpAnswer answer_message(Server& server, const HttpRequest& request, const Json& json) {
  if (is_response(json)) {
    return {.status = kAccepted};  // nothing was asked
  }
  const Answered<Message> message = read_message(json);
  if (!message) {
    return refusal(kBadRequest, id_of(json), message.error());
  }
  Answered<Opening> opening = opening_of(request, *message);
  if (!opening) {
    return refusal(kBadRequest, message->id, opening.error());
  }
  if (!message->id) {
    return {.status = kAccepted};
  }
  if (opening->era == Era::kModern) {
    if (const auto same = compare_headers(request, *message); !same) {
      return refusal(kBadRequest, message->id, same.error());
    }
  }
  const std::optional<Json> answer = server.answer(*message, opening->session);
  return answer ? answer_with(status_of(*answer, opening->era), *answer) : HttpAnswer{.status = kAccepted};
}

/// Several messages in one array: only where the header states the version that has them, or no header any.
HttpAnswer answer_batch(Server& server, const HttpRequest& request) {
  const std::string* version = header_of(request, "mcp-protocol-version");
  Connection connection(server, {.legacy_version = version == nullptr ? std::string(kBatchVersion) : *version});
  connection.receive(request.body);
  const std::optional<std::string> answer = connection.next();
  const bool refused = answer && answer->starts_with('{');  // one error for all of them
  return answer ? HttpAnswer{.status = refused ? kBadRequest : 200, .body = *answer + "\n"}
                : HttpAnswer{.status = kAccepted};
}

}  // namespace

HttpAnswer answer_http(Server& server, const HttpRequest& request) {
  if (!takes_json(request)) {
    return answer_of_error(kNotAcceptable, "answers are application/json", "name that type in the header Accept");
  }
  const std::string* type = header_of(request, "content-type");
  if (type == nullptr || media_type(*type) != "application/json") {
    return answer_of_error(kUnsupportedMediaType, "a message is application/json",
                           "name that type in the header Content-Type");
  }
  const Result<Json> json = parse_json(request.body);
  if (!json) {
    return refusal(kBadRequest, std::nullopt, {ErrorCode::kParseError, json.error().what, {}});
  }
  return json->is_array() ? answer_batch(server, request) : answer_message(server, request, *json);
}

}  // namespace stalltrace::serve::mcp
