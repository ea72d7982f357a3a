// SPDX-License-Identifier: Apache-2.0
#include "serve/http/listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/net/loopback.h"
#include "base/text.h"

namespace stalltrace::serve {
namespace {

constexpr int kBacklog = 512;

std::unexpected<Error> not_an_address(std::string_view text) {
  return fail(fmt::format("'{}' is not an address to listen at", text.substr(0, 100)),
              "write the number of an address of this host and a port: 127.0.0.1:7700, [::1]:7700", ErrorKind::kUsage);
}

}  // namespace

std::string format_address(std::string_view address, uint16_t port) {
  return address.find(':') == std::string_view::npos ? fmt::format("{}:{}", address, port)
                                                     : fmt::format("[{}]:{}", address, port);
}

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::string_view address = colon == std::string_view::npos ? "" : text.substr(0, colon);
  const auto port = parse_integer(colon == std::string_view::npos ? text : text.substr(colon + 1));
  if (!port || *port < 0 || *port > 65535) {
    return not_an_address(text);
  }
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  }
  ListenAddress where{.address = address.empty() || is_localhost(address) ? kLocalhostNumber : std::string(address),
                      .port = static_cast<uint16_t>(*port)};
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, where.address.c_str(), &v4) != 1 && ::inet_pton(AF_INET6, where.address.c_str(), &v6) != 1) {
    return not_an_address(text);
  }
  where.loopback = is_loopback(where.address);
  return where;
}

Result<Listener> listen_at(const ListenAddress& where) {
  sockaddr_storage storage{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  const bool is_v4 = ::inet_pton(AF_INET, where.address.c_str(), &v4->sin_addr) == 1;
  if (is_v4) {
    v4->sin_port = htons(where.port);
  } else {
    ::inet_pton(AF_INET6, where.address.c_str(), &v6->sin6_addr);
    v6->sin6_port = htons(where.port);
  }
  storage.ss_family = is_v4 ? AF_INET : AF_INET6;
  socklen_t size = is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const std::string shown = "listen at " + format_address(where.address, where.port);
  Listener listener{.socket = UniqueFd(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  const int fd = listener.socket.get();
  const int yes = 1;
  if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(fd, reinterpret_cast<sockaddr*>(&storage), size) != 0 || ::listen(fd, kBacklog) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return fail_errno(shown, errno,
                      errno == EADDRINUSE      ? "another program listens there: choose another port"
                      : errno == EADDRNOTAVAIL ? "that is no address of this host"
                                               : "choose a port above 1023");
  }
  listener.port = ntohs(is_v4 ? v4->sin_port : v6->sin6_port);
  return listener;
}

}  // namespace stalltrace::serve
