// SPDX-License-Identifier: Apache-2.0
// One client over a stream of lines, as stdio has it: lines in, lines out, without the input and output themselves.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "serve/mcp/server.h"

namespace stalltrace::serve::mcp {

/// Takes lines as they come and answers one request at a time, so that a request which waits can still be cancelled.
/// One thread at a time.
class Connection {
 public:
  static constexpr size_t kMostLineBytes = size_t{1} << 20;
  static constexpr size_t kMostWaiting = 64;
  static constexpr size_t kMostInBatch = 64;

  /// `session`: one that is open already.
  explicit Connection(Server& server, Session session = {}) : server_(server), session_(std::move(session)) {}

  /// A line without its end. Only while !full().
  void receive(std::string_view line);
  /// Instead of a line longer than kMostLineBytes.
  void receive_too_long();
  /// True if no further line is to be received before next() was called.
  [[nodiscard]] bool full() const { return waiting_.size() + ready_.size() >= kMostWaiting; }
  [[nodiscard]] bool idle() const { return waiting_.empty() && ready_.empty(); }
  /// The next line to send, without its end; computes it. None if that request needs no answer, or idle().
  std::optional<std::string> next();

 private:
  void receive_message(Json json);
  void cancel(const Json& params);
  [[nodiscard]] bool waits(const Json& id) const;
  std::optional<Json> answer(const Json& json);
  std::optional<Json> answer_batch(const Json& batch);

  Server& server_;
  Session session_;
  std::deque<Json> ready_;    // answers that need no work
  std::deque<Json> waiting_;  // messages, and batches of them, in order
};

}  // namespace stalltrace::serve::mcp
