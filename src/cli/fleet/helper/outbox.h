// SPDX-License-Identifier: Apache-2.0
// Lines on their way from a helper to its server, which may be slow to take them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace stalltrace::cli {

/// Frames (frames.h) that wait to be sent. One thread.
class Outbox {
 public:
  /// `socket`: the server's; the caller's.
  explicit Outbox(int socket) : socket_(socket) {}

  /// Nothing waits.
  [[nodiscard]] bool empty() const { return frames_.empty(); }
  /// The last byte that was added was within a line.
  [[nodiscard]] bool in_line() const { return in_line_; }
  /// A part of a line, or of several.
  void add(std::string_view bytes);
  /// A line of its own: a line that is not complete is ended before it.
  void add(const Error& error);
  /// The end of the answer.
  void add_end();
  /// What the server takes now. False: it is gone.
  [[nodiscard]] bool send_some();
  /// Waits until it has taken all. False: it is gone.
  [[nodiscard]] bool send_all();

 private:
  bool send(int flags);

  int socket_;
  std::string frames_;
  bool in_line_ = false;
};

}  // namespace stalltrace::cli
