// SPDX-License-Identifier: Apache-2.0
// The reader on the kernel's own answers: connections that this test makes over loopback.
#include "autopsy/sockets/diag.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "autopsy/sockets/namespace_sockets.h"
#include "base/handle.h"

namespace stalltrace::autopsy {
namespace {

/// A connection to ourselves.
struct Loop {
  UniqueFd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  UniqueFd client{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  UniqueFd server;
  uint16_t port = 0;

  Loop() {
    sockaddr_in address{.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (::bind(listener.get(), generic, size) == 0 && ::listen(listener.get(), 1) == 0 &&
        ::getsockname(listener.get(), generic, &size) == 0 && ::connect(client.get(), generic, size) == 0) {
      server = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      port = ntohs(address.sin_port);
    }
  }
};

TEST(NamespaceSockets, ShowBothEndsAndTheirQueues) {
  const Loop loop;
  ASSERT_GE(loop.server.get(), 0);
  const std::array<char, 1000> data{};
  ASSERT_EQ(::write(loop.client.get(), data.data(), data.size()), static_cast<ssize_t>(data.size()));
  const Procfs procfs;
  NamespaceSockets sockets(procfs);
  const auto ours = sockets.of(::getpid());
  ASSERT_TRUE(ours) << ours.error().what;
  const TcpSocket* client = nullptr;
  const TcpSocket* server = nullptr;
  const TcpSocket* listener = nullptr;
  for (const TcpSocket& socket : *ours) {
    if (socket.remote.port == loop.port) {
      client = &socket;
    } else if (socket.local.port == loop.port) {
      (socket.state == TcpState::kListen ? listener : server) = &socket;
    }
  }
  ASSERT_TRUE(client != nullptr && server != nullptr && listener != nullptr);
  EXPECT_EQ(client->state, TcpState::kEstablished);
  EXPECT_EQ(client->remote, server->local);
  EXPECT_EQ(client->local, server->remote);
  EXPECT_EQ(client->netns, procfs.netns(::getpid()));
  EXPECT_EQ(server->receive_queue, data.size());
  EXPECT_EQ(server->received, data.size());
  EXPECT_GE(client->acked, data.size());
  EXPECT_TRUE(client->silent_ms);
  EXPECT_FALSE(listener->silent_ms);
  EXPECT_EQ(client->remote.address, "127.0.0.1");
}

TEST(ParseDiag, TruncatedAndForeignMessagesAreLeftOut) {
  std::vector<std::byte> request = diag_request(AF_INET, 1);
  EXPECT_TRUE(parse_diag(request, 0).sockets.size() <= 1);
  for (size_t size = 0; size < request.size(); ++size) {
    EXPECT_TRUE(parse_diag(std::span(request).first(size), 0).sockets.empty());
  }
}

}  // namespace
}  // namespace stalltrace::autopsy
