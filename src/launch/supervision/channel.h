// SPDX-License-Identifier: Apache-2.0
// Messages between the launcher and its workers: a kind and some bytes, which arrive whole or not at all. Neither side
// waits for the other: what finds no room is not sent. One thread on each side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::launch {

enum class MessageKind : uint8_t {
  // of a worker
  kAlive,    // it gets on; what it has to report beside that
  kReady,    // the command may be started, with these lines in its environment
  kFlushed,  // all events so far are in the recording
  kStored,   // the evidence is complete and stored
  // for a worker
  kStarted,     // the command runs
  kNotStarted,  // and never will
  kAskedToEnd,  // the command got a signal that asks for its end
  kEnded,       // the command has ended; its exit code
  kFlush,       // answer with kFlushed
};

struct Message {
  MessageKind kind = MessageKind::kAlive;
  std::string bytes;  // at most 64 KiB
};

/// One of two ends.
class Channel {
 public:
  static Result<std::pair<Channel, Channel>> make();

  /// False: it was not sent.
  bool send(MessageKind kind, std::string_view bytes = {}) noexcept;
  /// None: nothing has come.
  std::optional<Message> receive();
  /// Readable (poll) when something has come, or the other side has ended; -1 when is_closed().
  [[nodiscard]] int descriptor() const { return closed_ ? -1 : socket_.get(); }
  /// The other side has ended, and all it sent was received.
  [[nodiscard]] bool is_closed() const { return closed_; }
  void close() {
    socket_.reset();
    closed_ = true;
  }

 private:
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
  bool closed_ = false;
};

}  // namespace stalltrace::launch
