// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/silent_nodes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace stalltrace::cli {
namespace {

constexpr std::string_view kHead =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
constexpr int kPollMs = 100;

}  // namespace

void SilentNodes::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> polled;
    for (const Listener& listener : listeners_) {
      polled.push_back({.fd = listener.socket.get(), .events = POLLIN, .revents = 0});
    }
    for (const Connection& connection : connections_) {
      polled.push_back({.fd = connection.socket.get(), .events = POLLIN, .revents = 0});
    }
    ::poll(polled.data(), polled.size(), kPollMs);
    std::erase_if(connections_, [](Connection& connection) { return !read_request(connection); });
    for (Connection& connection : connections_) {
      send_a_part(connection);
    }
    take_connections();
  }
}

void SilentNodes::take_connections() {
  for (const Listener& listener : listeners_) {
    UniqueFd socket(::accept(listener.socket.get(), nullptr, nullptr));  // accept4 is refused: base/rights/confinement
    if (socket) {
      ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
      connections_.push_back({.socket = std::move(socket), .silence = listener.silence});
    }
  }
}

/// False once the client has left.
bool SilentNodes::read_request(Connection& connection) {
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t got = ::recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) {
      return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    connection.asked = true;
  }
}

void SilentNodes::send_a_part(Connection& connection) {
  if (!connection.asked || connection.silence == Silence::kAll || monotonic_now_ns() < connection.due_ns) {
    return;
  }
  const bool trickles = connection.silence == Silence::kTrickles;
  const std::string_view part =
      connection.sent >= kHead.size() ? " " : kHead.substr(connection.sent, trickles ? 1 : kHead.size());
  if (trickles || connection.sent == 0) {
    const ssize_t sent = ::send(connection.socket.get(), part.data(), part.size(), MSG_NOSIGNAL);
    connection.sent += sent > 0 ? static_cast<size_t>(sent) : 0;
    connection.due_ns = monotonic_now_ns() + kNsPerSecond;
  }
}

}  // namespace stalltrace::cli
