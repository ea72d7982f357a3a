// SPDX-License-Identifier: Apache-2.0
// TCP sockets, and UNIX sockets between ranks of one node. All are nonblocking and close on exec; the functions here
// wait with poll(), in short turns, until they are done or `abort` becomes true (then ncclInternalError). Each failure
// is logged where it is found.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include "address.h"
#include "nccl.h"

namespace lab::nccl {

/// Owns one file descriptor; -1 is empty.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Listens on the interface's address, on a port the kernel chooses; `*bound` is the address others connect to.
ncclResult_t listen_on(const Interface& interface, Socket* listener, SocketAddress* bound);

/// Listens at a name that only processes of this network namespace reach, derived from the address of the rank's own
/// TCP listener, which no other process there can have.
ncclResult_t listen_locally(const SocketAddress& own, Socket* listener);

/// Begins to connect; with `locally` to the peer's local name. The socket becomes writable when that ends, and
/// connect_error() says how.
ncclResult_t begin_connect(const SocketAddress& peer, bool locally, Socket* socket);
/// 0, or the errno of the connection attempt that ended.
int connect_error(const Socket& socket);

/// Connects. Refusals, time-outs and unreachable hosts are tried again, NCCL_SOCKET_RETRY_CNT times (34) after
/// NCCL_SOCKET_RETRY_SLEEP_MSEC (100) times the number of the attempt; then ncclRemoteError. Any other error is
/// ncclSystemError at once.
ncclResult_t connect_to(const SocketAddress& peer, const std::atomic<bool>& abort, Socket* socket);

ncclResult_t accept_from(const Socket& listener, const std::atomic<bool>& abort, Socket* socket);

/// Exactly `size` bytes. A connection that ends or breaks is ncclRemoteError.
ncclResult_t send_all(const Socket& socket, const void* data, size_t size, const std::atomic<bool>& abort);
ncclResult_t recv_all(const Socket& socket, void* data, size_t size, const std::atomic<bool>& abort);

/// One nonblocking send or recv of at most `size` bytes; `*moved` is 0 where it would block.
ncclResult_t try_send(int fd, const void* data, size_t size, size_t* moved);
ncclResult_t try_recv(int fd, void* data, size_t size, size_t* moved);
/// One nonblocking accept; `*socket` stays empty if no connection waits.
ncclResult_t try_accept(const Socket& listener, Socket* socket);

/// The other end's address, for messages.
std::string peer_text(int fd);

}  // namespace lab::nccl
