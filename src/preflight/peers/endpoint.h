// SPDX-License-Identifier: Apache-2.0
// Addresses and connections of the tests between nodes.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::preflight {

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] int family() const { return storage.ss_family; }
  /// The number, without the port; an IPv4 address in an IPv6 one is written as IPv4.
  [[nodiscard]] std::string number() const;
  [[nodiscard]] uint16_t port() const;

  /// `number` is an IPv4 or IPv6 address; an empty one stands for all addresses, of both families. Errors: anything
  /// else.
  static Result<Endpoint> of(const std::string& number, uint16_t port);
};

/// The address that a socket has here, or its peer there.
Endpoint local_endpoint(int fd);
Endpoint remote_endpoint(int fd);

struct Connected {
  UniqueFd fd;    // empty if it failed; blocking
  int error = 0;  // errno; ETIMEDOUT after the limit
};
/// `small_segments`: this connection has to work where large packets vanish, too.
Connected connect_within(const Endpoint& to, int64_t limit_ns, bool small_segments = false);

/// A listening TCP socket, or a bound UDP socket, that does not block. Port 0: the kernel chooses. Errors: the
/// address is not of this host, or the port is taken.
Result<UniqueFd> listen_on(const Endpoint& at, bool small_segments = false);
Result<UniqueFd> bind_datagrams(const Endpoint& at);

/// The largest segment of a connection with small segments. Every path has to carry its packets (RFC 879).
inline constexpr int kSmallSegment = 536;

}  // namespace stalltrace::preflight
