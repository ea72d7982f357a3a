// SPDX-License-Identifier: Apache-2.0
// Bytes in frames, over the socket between a server and its helper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stalltrace::cli {

inline constexpr size_t kLongestFrame = 1 << 20;

/// Appends a frame: bytes after their number. None at all: the end of the work, or, from the server, that it is to
/// end.
void append_frame(std::string& frames, std::string_view bytes);

/// Sends one, and waits until all of it is taken. False: the other end is gone.
[[nodiscard]] bool send_frame(int socket, std::string_view bytes);

/// Reads frames. What has come of one when the time is over is kept. One thread at a time.
class FrameReader {
 public:
  enum class Got : uint8_t { kFrame, kLate, kGone };
  /// `limit_ns`: how long it waits where no byte comes; -1: without an end. kGone: the other end has closed, or sends
  /// what is no frame.
  Got next(int socket, int64_t limit_ns, std::string& frame);

 private:
  std::string begun_;
};

}  // namespace stalltrace::cli
