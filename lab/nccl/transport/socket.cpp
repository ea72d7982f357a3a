// SPDX-License-Identifier: Apache-2.0
#include "socket.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "debug.h"
#include "result.h"

namespace lab::nccl {
namespace {

constexpr int kPollTurnMs = 50;
constexpr int kDefaultRetries = 34;
constexpr int kDefaultRetrySleepMs = 100;
constexpr int kBacklog = 16384;

int environment_number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) {
    return otherwise;
  }
  const std::string_view view(text);
  int value = 0;
  const auto [end, error] = std::from_chars(view.begin(), view.end(), value);
  return error == std::errc() && end == view.end() && value >= 0 ? value : otherwise;
}

ncclResult_t open_socket(int family, Socket* socket) {
  *socket = Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!*socket) {
    NCCL_WARN("Call to socket failed: %s", strerror(errno));
    return ncclSystemError;
  }
  return ncclSuccess;
}

void set_no_delay(const Socket& socket) {
  const int one = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

ncclResult_t wait_for(const Socket& socket, short events, const std::atomic<bool>& abort) {
  while (!abort) {
    pollfd entry{.fd = socket.get(), .events = events, .revents = 0};
    const int ready = poll(&entry, 1, kPollTurnMs);
    if (ready > 0) {
      return ncclSuccess;
    }
    if (ready < 0 && errno != EINTR) {
      NCCL_WARN("Call to poll failed: %s", strerror(errno));
      return ncclSystemError;
    }
  }
  info(kInit | kNet, "socket operation ended by abort");
  return ncclInternalError;
}

bool may_recover(int error) { return error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH; }

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// One attempt, waited for; `*error` is the errno it ended with.
ncclResult_t connect_once(const SocketAddress& peer, const std::atomic<bool>& abort, Socket* socket, int* error) {
  NCCL_TRY(open_socket(peer.any.sa_family, socket));
  *error = 0;
  if (::connect(socket->get(), &peer.any, peer.size()) == 0) {
    return ncclSuccess;
  }
  *error = errno;
  if (*error == EINPROGRESS) {
    NCCL_TRY(wait_for(*socket, POLLOUT, abort));
    *error = connect_error(*socket);
  }
  return ncclSuccess;
}

/// A name in the abstract namespace, which ends with its last socket and leaves no file.
class LocalName {
 public:
  explicit LocalName(const SocketAddress& address) {
    const std::string name = "lab-nccl " + to_text(address);
    name_.sun_family = AF_UNIX;
    std::memcpy(name_.sun_path + 1, name.data(), std::min(name.size(), sizeof(name_.sun_path) - 1));
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  [[nodiscard]] const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&name_); }
  [[nodiscard]] socklen_t size() const { return size_; }

 private:
  sockaddr_un name_{};
  socklen_t size_ = 0;
};

ncclResult_t start_listening(const Socket& listener, const sockaddr* address, socklen_t size) {
  if (::bind(listener.get(), address, size) != 0) {
    NCCL_WARN("Call to bind failed: %s", strerror(errno));
    return ncclSystemError;
  }
  if (::listen(listener.get(), kBacklog) != 0) {
    NCCL_WARN("Call to listen failed: %s", strerror(errno));
    return ncclSystemError;
  }
  return ncclSuccess;
}

ncclResult_t stream_failure(const char* call, int fd, int error) {
  NCCL_WARN("socketProgressOpt: Call to %s %s failed : %s", call, peer_text(fd).c_str(), strerror(error));
  return ncclRemoteError;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

ncclResult_t listen_on(const Interface& interface, Socket* listener, SocketAddress* bound) {
  NCCL_TRY(open_socket(interface.address.any.sa_family, listener));
  NCCL_TRY(start_listening(*listener, &interface.address.any, interface.address.size()));
  std::memset(bound, 0, sizeof(*bound));
  socklen_t size = sizeof(*bound);
  if (getsockname(listener->get(), &bound->any, &size) != 0) {
    NCCL_WARN("Call to getsockname failed: %s", strerror(errno));
    return ncclSystemError;
  }
  return ncclSuccess;
}

ncclResult_t listen_locally(const SocketAddress& own, Socket* listener) {
  NCCL_TRY(open_socket(AF_UNIX, listener));
  const LocalName name(own);
  return start_listening(*listener, name.address(), name.size());
}

ncclResult_t begin_connect(const SocketAddress& peer, bool locally, Socket* socket) {
  NCCL_TRY(open_socket(locally ? AF_UNIX : peer.any.sa_family, socket));
  const LocalName name(peer);
  if (!locally) {
    set_no_delay(*socket);
  }
  if (::connect(socket->get(), locally ? name.address() : &peer.any, locally ? name.size() : peer.size()) != 0 &&
      errno != EINPROGRESS) {
    NCCL_WARN("socketStartConnect: connect to %s failed : %s", to_text(peer).c_str(), strerror(errno));
    return may_recover(errno) ? ncclRemoteError : ncclSystemError;
  }
  return ncclSuccess;
}

int connect_error(const Socket& socket) {
  int error = 0;
  socklen_t size = sizeof(error);
  return getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

ncclResult_t connect_to(const SocketAddress& peer, const std::atomic<bool>& abort, Socket* socket) {
  const int retries = environment_number("NCCL_SOCKET_RETRY_CNT", kDefaultRetries);
  const int sleep_ms = environment_number("NCCL_SOCKET_RETRY_SLEEP_MSEC", kDefaultRetrySleepMs);
  for (int attempt = 1;; ++attempt) {
    int error = 0;
    NCCL_TRY(connect_once(peer, abort, socket, &error));
    if (error == 0) {
      set_no_delay(*socket);
      return ncclSuccess;
    }
    if (!may_recover(error)) {
      NCCL_WARN("socketPollConnect: connect to %s failed : %s", to_text(peer).c_str(), strerror(error));
      return ncclSystemError;
    }
    if (attempt > retries) {
      NCCL_WARN("socketPollConnect: connect to %s returned %s, exceeded error retry count after %d attempts",
                to_text(peer).c_str(), strerror(error), attempt);
      return ncclRemoteError;
    }
    const int pause_ms = sleep_ms * attempt;
    info(kInit | kNet, "socketPollConnect: connect to %s returned %s, retrying (%d/%d) after sleep for %d msec",
         to_text(peer).c_str(), strerror(error), attempt, retries, pause_ms);
    for (int slept = 0; slept < pause_ms && !abort; slept += kPollTurnMs) {
      std::this_thread::sleep_for(std::chrono::milliseconds(std::min(kPollTurnMs, pause_ms - slept)));
    }
  }
}

ncclResult_t try_accept(const Socket& listener, Socket* socket) {
  *socket = Socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (*socket) {
    set_no_delay(*socket);
    return ncclSuccess;
  }
  if (would_block(errno) || errno == ECONNABORTED || errno == EPROTO) {
    return ncclSuccess;
  }
  NCCL_WARN("socketTryAccept: Accept failed: %s", strerror(errno));
  return ncclSystemError;
}

ncclResult_t accept_from(const Socket& listener, const std::atomic<bool>& abort, Socket* socket) {
  do {
    NCCL_TRY(wait_for(listener, POLLIN, abort));
    NCCL_TRY(try_accept(listener, socket));
  } while (!*socket);
  return ncclSuccess;
}

ncclResult_t try_send(int fd, const void* data, size_t size, size_t* moved) {
  *moved = 0;
  const ssize_t sent = ::send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    return would_block(errno) ? ncclSuccess : stream_failure("send to", fd, errno);
  }
  *moved = static_cast<size_t>(sent);
  return ncclSuccess;
}

ncclResult_t try_recv(int fd, void* data, size_t size, size_t* moved) {
  *moved = 0;
  const ssize_t got = ::recv(fd, data, size, MSG_DONTWAIT);
  if (got < 0) {
    return would_block(errno) ? ncclSuccess : stream_failure("recv from", fd, errno);
  }
  if (got == 0) {
    NCCL_WARN("socketProgress: Connection closed by remote peer %s", peer_text(fd).c_str());
    return ncclRemoteError;
  }
  *moved = static_cast<size_t>(got);
  return ncclSuccess;
}

ncclResult_t send_all(const Socket& socket, const void* data, size_t size, const std::atomic<bool>& abort) {
  const auto* from = static_cast<const char*>(data);
  while (size > 0) {
    size_t moved = 0;
    NCCL_TRY(try_send(socket.get(), from, size, &moved));
    from += moved;
    size -= moved;
    if (moved == 0) {
      NCCL_TRY(wait_for(socket, POLLOUT, abort));
    }
  }
  return ncclSuccess;
}

ncclResult_t recv_all(const Socket& socket, void* data, size_t size, const std::atomic<bool>& abort) {
  auto* into = static_cast<char*>(data);
  while (size > 0) {
    size_t moved = 0;
    NCCL_TRY(try_recv(socket.get(), into, size, &moved));
    into += moved;
    size -= moved;
    if (moved == 0) {
      NCCL_TRY(wait_for(socket, POLLIN, abort));
    }
  }
  return ncclSuccess;
}

std::string peer_text(int fd) {
  SocketAddress address{};
  socklen_t size = sizeof(address);
  if (getpeername(fd, &address.any, &size) != 0) {
    return "(unconnected)";
  }
  return address.any.sa_family == AF_UNIX ? "on this node" : to_text(address);
}

}  // namespace lab::nccl
