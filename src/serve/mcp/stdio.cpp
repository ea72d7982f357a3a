// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp/stdio.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "serve/mcp/connection.h"

namespace stalltrace::serve::mcp {
namespace {

/// Cuts what is read into lines.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}

  [[nodiscard]] bool ended() const { return ended_; }

  /// True if read() would not block.
  [[nodiscard]] bool ready() const {
    pollfd polled{.fd = fd_, .events = POLLIN, .revents = 0};
    return begin_ < end_ || ::poll(&polled, 1, 0) > 0;
  }

  /// Passes lines on until the connection is full or no bytes are left; if there are none, reads once and waits for
  /// them.
  Status read(Connection& connection) {
    if (begin_ == end_) {
      ST_TRY(fill());
      if (ended_) {
        take_line(connection, true);
      }
    }
    while (begin_ < end_ && !connection.full()) {
      const char byte = buffer_[begin_++];
      if (byte == '\n') {
        take_line(connection, false);
      } else if (line_.size() < Connection::kMostLineBytes) {
        line_ += byte;
      } else {
        too_long_ = true;
      }
    }
    return {};
  }

 private:
  Status fill() {
    const ssize_t got = ::read(fd_, buffer_.data(), buffer_.size());
    if (got < 0 && errno == EAGAIN) {  // who gave it to us made it non-blocking
      pollfd polled{.fd = fd_, .events = POLLIN, .revents = 0};
      ::poll(&polled, 1, -1);
      return {};
    }
    if (got < 0 && errno != EINTR) {
      return fail_errno("standard input", errno);
    }
    ended_ = got == 0;
    begin_ = 0;
    end_ = static_cast<size_t>(std::max<ssize_t>(got, 0));
    return {};
  }

  /// A last line without an end was cut off, unless it is whole.
  void take_line(Connection& connection, bool last) {
    if (too_long_) {
      connection.receive_too_long();
    } else if (!last || !line_.empty()) {
      connection.receive(line_);
    }
    line_.clear();
    too_long_ = false;
  }

  int fd_;
  std::array<char, 65536> buffer_{};
  size_t begin_ = 0;  // of the bytes that were read and not yet looked at
  size_t end_ = 0;
  std::string line_;
  bool too_long_ = false;
  bool ended_ = false;
};

/// False if no process reads it.
Result<bool> write_line(int fd, std::string line) {
  line += '\n';
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t wrote = ::write(fd, rest.data(), rest.size());
    if (wrote >= 0) {
      rest.remove_prefix(static_cast<size_t>(wrote));
    } else if (errno == EPIPE) {
      return false;
    } else if (errno == EAGAIN) {
      pollfd polled{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&polled, 1, -1);
    } else if (errno != EINTR) {
      return fail_errno("standard output", errno);
    }
  }
  return true;
}

}  // namespace

Status serve_stream(Server& server, int in, int out) {
  Connection connection(server);
  LineReader reader(in);
  while (!reader.ended() || !connection.idle()) {
    while (!reader.ended() && !connection.full() && (connection.idle() || reader.ready())) {
      ST_TRY(reader.read(connection));
    }
    if (std::optional<std::string> line = connection.next()) {
      ST_ASSIGN(const bool read, write_line(out, *std::move(line)));
      if (!read) {
        return {};
      }
    }
  }
  return {};
}

}  // namespace stalltrace::serve::mcp
