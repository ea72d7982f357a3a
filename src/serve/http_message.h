// SPDX-License-Identifier: Apache-2.0
// A request and its answer, without their transport.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace stalltrace::serve {

/// The headers that answers depend on, in lower case. One that comes several times is one list (RFC 9110, 5.3). Host,
/// Origin and the token are judged by the server, before there is a request.
inline constexpr std::array<std::string_view, 6> kKeptHeaders{"accept",   "content-type",         "mcp-method",
                                                              "mcp-name", "mcp-protocol-version", "stalltrace-bytes"};

struct HttpRequest {
  std::string method;                          // "GET"
  std::string path;                            // "/v1/query", decoded
  std::map<std::string, std::string> query;    // "?limit=10", decoded; of two with one name the last counts
  std::map<std::string, std::string> headers;  // of kKeptHeaders, those that it has
  std::string body;
  size_t listener = 0;                      // of a server with several, the one that was asked
  const std::atomic<bool>* gone = nullptr;  // set once no client waits for the answer; null: not known
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  /// Instead of `body`: called until it gives an empty piece. An error breaks the connection, so that the answer can't
  /// be taken for complete.
  std::function<Result<std::string>()> next_piece;
  /// The pieces take room that other answers wait for: the client has to read them at a rate, or is given up.
  bool takes_room = false;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Takes a body that is too large to be kept in memory. One call at a time, by any thread. If it is gone before
/// finish(), the client has left, and nothing of the body is kept.
class BodySink {
 public:
  virtual ~BodySink() = default;
  /// An answer: the request is refused, and no more of it is wanted.
  virtual std::optional<HttpAnswer> add(std::string_view bytes) = 0;
  /// After the whole body.
  virtual HttpAnswer finish() = 0;
};

/// What becomes of a request with such a body: where it goes, or the answer that refuses it before it is sent.
struct Upload {
  std::shared_ptr<BodySink> body;
  HttpAnswer refusal;  // where there is no body
};

/// {"error": what, "remedy": remedy} with the status that fits the kind.
HttpAnswer answer_of_error(const Error& error);
HttpAnswer answer_of_error(int status, std::string_view what, std::string_view remedy);

/// Sets path and query of a request's target: "/v1/query?limit=10". An error (kUsage) if it is not one.
Status read_target(std::string_view target, HttpRequest& request);

/// `text` as a value in a target.
std::string percent_encoded(std::string_view text);

/// Whether the two are equal, in a time that depends on their lengths alone.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace stalltrace::serve
