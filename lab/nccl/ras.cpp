// SPDX-License-Identifier: Apache-2.0
#include "ras.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <vector>

#include "result.h"

namespace lab::nccl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kInterval{1000};
constexpr size_t kKeepAliveBytes = 64;

}  // namespace

ncclResult_t Ras::start(const Interface& interface, Bootstrap& bootstrap, int rank, int nranks,
                        const std::atomic<bool>& abort, std::unique_ptr<Ras>* result) {
  Socket listener;
  std::vector<SocketAddress> peers(static_cast<size_t>(nranks));
  NCCL_TRY(listen_on(interface, &listener, &peers[static_cast<size_t>(rank)]));
  NCCL_TRY(bootstrap.all_gather(peers.data(), sizeof(SocketAddress)));
  std::unique_ptr<Ras> ras(new Ras());
  NCCL_TRY(connect_to(peers[static_cast<size_t>((rank + 1) % nranks)], abort, &ras->next_));
  NCCL_TRY(accept_from(listener, abort, &ras->previous_));
  ras->stop_ = Socket(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  ras->thread_ = std::jthread([self = ras.get()] { self->run(); });
  *result = std::move(ras);
  return ncclSuccess;
}

Ras::~Ras() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
}

void Ras::run() const {
  pthread_setname_np(pthread_self(), "NCCL RAS");
  std::array<char, kKeepAliveBytes> message{};
  auto due = Clock::now() + kInterval;
  while (true) {
    std::array polls{pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0},
                     pollfd{.fd = previous_.get(), .events = POLLIN, .revents = 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now());
    poll(polls.data(), polls.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (polls[0].revents != 0 ||
        (polls[1].revents != 0 && ::recv(previous_.get(), message.data(), message.size(), MSG_DONTWAIT) == 0)) {
      return;
    }
    if (Clock::now() >= due) {
      due += kInterval;
      if (::send(next_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN) {
        return;
      }
    }
  }
}

}  // namespace lab::nccl
