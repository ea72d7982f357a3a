// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/io/poll_until.h"

namespace stalltrace::preflight {
namespace {

void set_option(int fd, int level, int name, int value) { (void)::setsockopt(fd, level, name, &value, sizeof value); }

Endpoint endpoint_by(int fd, int (*ask)(int, sockaddr*, socklen_t*)) {
  Endpoint found;
  found.size = sizeof found.storage;
  if (ask(fd, found.get(), &found.size) != 0) {
    found = {};
  }
  return found;
}

int wait_for_connection(int fd, int64_t limit_ns) {
  pollfd one{.fd = fd, .events = POLLOUT};
  if (!poll_until({&one, 1}, monotonic_now_ns() + limit_ns)) {
    return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

}  // namespace

std::string Endpoint::number() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = family() == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(get())->sin_addr)
                          : &reinterpret_cast<const sockaddr_in6*>(get())->sin6_addr;
  if ((family() != AF_INET && family() != AF_INET6) ||
      ::inet_ntop(family(), bytes, text.data(), static_cast<socklen_t>(text.size())) == nullptr) {
    return {};
  }
  constexpr std::string_view kMapped = "::ffff:";
  const std::string number = text.data();
  return number.starts_with(kMapped) && number.find('.') != std::string::npos ? number.substr(kMapped.size()) : number;
}

uint16_t Endpoint::port() const {
  return ntohs(family() == AF_INET ? reinterpret_cast<const sockaddr_in*>(get())->sin_port
                                   : reinterpret_cast<const sockaddr_in6*>(get())->sin6_port);
}

Result<Endpoint> Endpoint::of(const std::string& number, uint16_t port) {
  Endpoint made;
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(port)};
  sockaddr_in6 v6{.sin6_family = AF_INET6, .sin6_port = htons(port)};
  if (::inet_pton(AF_INET, number.c_str(), &v4.sin_addr) == 1) {
    std::memcpy(&made.storage, &v4, sizeof v4);
    made.size = sizeof v4;
    return made;
  }
  if (number.empty() || ::inet_pton(AF_INET6, number.c_str(), &v6.sin6_addr) == 1) {
    std::memcpy(&made.storage, &v6, sizeof v6);
    made.size = sizeof v6;
    return made;
  }
  return fail(number + " is no address", "give an IPv4 or IPv6 address without a scope", ErrorKind::kUsage);
}

Endpoint local_endpoint(int fd) { return endpoint_by(fd, ::getsockname); }
Endpoint remote_endpoint(int fd) { return endpoint_by(fd, ::getpeername); }

Connected connect_within(const Endpoint& to, int64_t limit_ns, bool small_segments) {
  UniqueFd fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    return {.error = errno};
  }
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (small_segments) {
    set_option(fd.get(), IPPROTO_TCP, TCP_MAXSEG, kSmallSegment);
  }
  if (::connect(fd.get(), to.get(), to.size) != 0) {
    const int error = errno == EINPROGRESS ? wait_for_connection(fd.get(), limit_ns) : errno;
    if (error != 0) {
      return {.error = error};
    }
  }
  const int flags = ::fcntl(fd.get(), F_GETFL);
  (void)::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  return {.fd = std::move(fd)};
}

Result<UniqueFd> listen_on(const Endpoint& at, bool small_segments) {
  constexpr int kBacklog = 4096;  // the ranks of a launch come at once
  UniqueFd fd(::socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    return fail_errno("open a socket", errno);
  }
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (small_segments) {
    set_option(fd.get(), IPPROTO_TCP, TCP_MAXSEG, kSmallSegment);
  }
  if (::bind(fd.get(), at.get(), at.size) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return fail_errno("listen at port " + std::to_string(at.port()), errno,
                      "choose another one with --port, on all ranks");
  }
  return fd;
}

Result<UniqueFd> bind_datagrams(const Endpoint& at) {
  UniqueFd fd(::socket(at.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd || ::bind(fd.get(), at.get(), at.size) != 0) {
    return fail_errno("open a UDP socket at " + at.number(), errno);
  }
  return fd;
}

}  // namespace stalltrace::preflight
