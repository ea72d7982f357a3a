// SPDX-License-Identifier: Apache-2.0
#include "store.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

namespace lab::workload {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLimit{60};
constexpr std::chrono::milliseconds kRetry{50};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

std::unexpected<std::string> fail(const std::string& what, const RankEnvironment& environment) {
  return std::unexpected(what + " " + environment.master_address + ":" + std::to_string(environment.master_port) +
                         ": " + strerror(errno));
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::expected<Addresses, std::string> resolve(const RankEnvironment& environment) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(environment.master_port);
  if (const int error = getaddrinfo(environment.master_address.c_str(), port.c_str(), &hints, &found); error != 0) {
    return std::unexpected("MASTER_ADDR " + environment.master_address + ": " + gai_strerror(error));
  }
  return Addresses(found, freeaddrinfo);
}

/// Answers world_size - 1 connections with the id.
std::expected<void, std::string> serve(const RankEnvironment& environment, const addrinfo& address,
                                       const ncclUniqueId& id) {
  const Descriptor listener(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (::bind(listener.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(listener.get(), environment.world_size) != 0) {
    return fail("listen on", environment);
  }
  const auto deadline = Clock::now() + kLimit;
  for (int served = 1; served < environment.world_size;) {
    pollfd entry{.fd = listener.get(), .events = POLLIN, .revents = 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || poll(&entry, 1, static_cast<int>(left)) <= 0) {
      return std::unexpected("only " + std::to_string(served) + " of " + std::to_string(environment.world_size) +
                             " ranks asked for the unique id within a minute; check that all were started");
    }
    const Descriptor peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (::send(peer.get(), &id, sizeof(id), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(id))) {
      served++;
    }
  }
  return {};
}

bool fetch_once(const addrinfo& address, ncclUniqueId* id) {
  const Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0 &&
         ::recv(socket.get(), id, sizeof(*id), MSG_WAITALL) == static_cast<ssize_t>(sizeof(*id));
}

}  // namespace

std::expected<void, std::string> share_id(const RankEnvironment& environment, ncclUniqueId* id) {
  if (environment.world_size == 1) {
    return {};
  }
  const auto addresses = resolve(environment);
  if (!addresses) {
    return std::unexpected(addresses.error());
  }
  if (environment.rank == 0) {
    return serve(environment, **addresses, *id);
  }
  const auto deadline = Clock::now() + kLimit;
  while (!fetch_once(**addresses, id)) {
    if (Clock::now() > deadline) {
      return fail("no unique id within a minute from", environment);
    }
    std::this_thread::sleep_for(kRetry);
  }
  return {};
}

}  // namespace lab::workload
