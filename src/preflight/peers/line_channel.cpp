// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/line_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/io/poll_until.h"

namespace stalltrace::preflight {
namespace {

constexpr size_t kLongestLine = 1 << 20;
constexpr int kDeepest = 12;
constexpr int kSendMs = 5000;

std::unexpected<Error> gone() { return fail("the other end has closed the connection"); }

}  // namespace

Status LineChannel::send(const nlohmann::ordered_json& message) {
  const std::string line = message.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t done = ::send(fd_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done >= 0) {
      sent += static_cast<size_t>(done);
      continue;
    }
    pollfd one{.fd = fd_.get(), .events = POLLOUT};
    if ((errno != EAGAIN && errno != EINTR) || ::poll(&one, 1, kSendMs) == 0) {
      return gone();
    }
  }
  return {};
}

Result<std::optional<nlohmann::ordered_json>> LineChannel::poll_message() {
  std::array<char, 16384> piece{};
  size_t end = begun_.find('\n');
  while (end == std::string::npos) {
    const ssize_t read = ::recv(fd_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (read < 0 && (errno == EAGAIN || errno == EINTR)) {
      return std::nullopt;
    }
    if (read <= 0) {
      return gone();
    }
    begun_.append(piece.data(), static_cast<size_t>(read));
    if (begun_.size() > kLongestLine) {
      return fail("a message is longer than 1 MiB", "", ErrorKind::kCorrupt);
    }
    end = begun_.find('\n');
  }
  const auto not_too_deep = [](int depth, nlohmann::ordered_json::parse_event_t, nlohmann::ordered_json&) {
    return depth <= kDeepest;
  };
  nlohmann::ordered_json message =
      nlohmann::ordered_json::parse(begun_.substr(0, end), not_too_deep, /*allow_exceptions=*/false);
  begun_.erase(0, end + 1);
  if (!message.is_object()) {
    return fail("a message is no JSON object", "is it another program at this port?", ErrorKind::kCorrupt);
  }
  return std::optional(std::move(message));
}

Result<nlohmann::ordered_json> LineChannel::receive(int64_t limit_ns) {
  const int64_t end_ns = monotonic_now_ns() + limit_ns;
  for (;;) {
    ST_ASSIGN(std::optional<nlohmann::ordered_json> message, poll_message());
    if (message) {
      return *std::move(message);
    }
    if (monotonic_now_ns() >= end_ns || !wait_readable(fd_.get(), end_ns)) {
      return fail("no answer in time", "", ErrorKind::kInterrupted);
    }
  }
}

Status LineChannel::send_byte(char byte) {
  return ::send(fd_.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? Status() : gone();
}

Result<char> LineChannel::receive_byte(int64_t limit_ns) {
  const int64_t end_ns = monotonic_now_ns() + limit_ns;
  char byte = 0;
  do {
    const ssize_t read = ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT);
    if (read == 1) {
      return byte;
    }
    if (read == 0 || (errno != EAGAIN && errno != EINTR)) {
      return gone();
    }
  } while (monotonic_now_ns() < end_ns && wait_readable(fd_.get(), end_ns));
  return fail("no answer in time", "", ErrorKind::kInterrupted);
}

}  // namespace stalltrace::preflight
