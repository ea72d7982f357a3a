// SPDX-License-Identifier: Apache-2.0
// Serves an API over HTTP/1.1, with or without TLS. What a request may take is limited: its size, the time that it
// takes to arrive and to be answered, and the number of connections. Boost.Beast and Asio are seen by server.cpp alone.
//
// run() uses the calling thread for the connections and `workers` threads of its own for the answers, so that an
// answer that takes long keeps no other client waiting.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/handle.h"
#include "base/result.h"
#include "serve/http/tls.h"
#include "serve/http_message.h"

namespace stalltrace::serve {

/// Requests whose body is taken piece by piece, as it is too large to be kept in memory.
struct Uploads {
  std::string path = {};                                 // of these requests; empty: there are none
  std::function<Upload(const HttpRequest&)> begin = {};  // gets the request without its body; on a worker
  size_t most_at_once = 8;                               // further ones are answered with 503
  std::chrono::milliseconds piece_limit{60'000};         // for 256 KiB to arrive
  std::chrono::milliseconds limit{60 * 60'000};          // for the whole body
};

struct ServerOptions {
  std::string token;  // that requests have to bring; empty: none, and only requests to this host itself are answered
  std::optional<TlsIdentity> tls;  // none: plain
  size_t most_connections = 256;
  size_t most_waiting = 32;  // requests that are being answered, or wait for it
  size_t workers = 4;
  size_t most_header_bytes = 16 << 10;
  size_t most_body_bytes = 256 << 10;
  std::chrono::milliseconds request_limit{10'000};  // from the connection, or the last answer, to a complete request
  std::chrono::milliseconds answer_limit{60'000};   // to send an answer, or one piece of it
  int64_t least_bytes_per_s = 1 << 20;  // of an answer that takes room: its pieces together have answer_limit and this
  Uploads uploads = {};
};

class HttpServer {
 public:
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  /// `listener` is a listening socket. `handler` is called by several threads at once. Errors: no descriptor or thread
  /// is left for the server itself.
  static Result<std::unique_ptr<HttpServer>> create(UniqueFd listener, Handler handler, ServerOptions options);
  /// At several addresses (HttpRequest::listener); the limits are for all together.
  static Result<std::unique_ptr<HttpServer>> create(std::vector<UniqueFd> listeners, Handler handler,
                                                    ServerOptions options);
  /// Waits for answers that are being computed.
  virtual ~HttpServer() = default;

  /// Until stop(), or until the descriptor `until` is readable; -1: until stop() alone. Errors: descriptors or memory
  /// ran out so that it can't go on.
  virtual Status run(int until) = 0;
  /// Any thread.
  virtual void stop() = 0;
};

}  // namespace stalltrace::serve
