// SPDX-License-Identifier: Apache-2.0
// A server on loopback in a thread, and a client that sends bytes as they are.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/handle.h"
#include "serve/http/listener.h"
#include "serve/http/server.h"

namespace stalltrace::serve {

class RunningServer {
 public:
  explicit RunningServer(HttpServer::Handler handler, ServerOptions options = {}) {
    auto listener = listen_at({.address = "127.0.0.1", .port = 0, .loopback = true});
    EXPECT_TRUE(listener.has_value());
    port_ = listener->port;
    auto server = HttpServer::create(std::move(listener->socket), std::move(handler), std::move(options));
    EXPECT_TRUE(server.has_value());
    server_ = *std::move(server);
    thread_ = std::jthread([this] { EXPECT_TRUE(server_->run(-1)); });
  }
  ~RunningServer() { server_->stop(); }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }

 private:
  uint16_t port_ = 0;
  std::unique_ptr<HttpServer> server_;
  std::jthread thread_;
};

/// A connection to a port of loopback. What takes longer than five seconds fails.
class RawConnection {
 public:
  explicit RawConnection(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval limit{.tv_sec = 5};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  /// False once the other side has closed.
  bool send(std::string_view bytes) {
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  /// All until the other side closes.
  std::string receive() {
    std::string all;
    char part[4096];
    for (ssize_t got = 0; (got = ::recv(socket_.get(), part, sizeof part, 0)) > 0;) {
      all.append(part, static_cast<size_t>(got));
    }
    return all;
  }

 private:
  UniqueFd socket_;
};

/// The whole answer to `request`, which asks to close the connection.
inline std::string answer_to(uint16_t port, std::string_view request) {
  RawConnection connection(port);
  connection.send(request);
  return connection.receive();
}

/// The number in an answer's first line; 0: there is none.
inline int status_of(std::string_view answer) {
  return answer.starts_with("HTTP/1.") && answer.size() > 12 ? std::atoi(std::string(answer.substr(9, 3)).c_str()) : 0;
}

}  // namespace stalltrace::serve
