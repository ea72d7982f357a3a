// SPDX-License-Identifier: Apache-2.0
#include "links.h"

#include <cstring>

#include "debug.h"
#include "result.h"

namespace lab::nccl {

Links::Links(int rank, uint64_t magic, Listeners listeners, std::vector<SocketAddress> peers)
    : rank_(rank), magic_(magic), listeners_(std::move(listeners)), peers_(std::move(peers)) {}

bool Links::is_local(int peer) const {
  return listeners_.local && same_host(peers_[static_cast<size_t>(rank_)], peers_[static_cast<size_t>(peer)]);
}

ncclResult_t Links::outgoing(LinkUse use, int peer, int* fd) {
  Outgoing& link = outgoing_[{use, peer}];
  if (!link.socket) {
    NCCL_TRY(begin_connect(peers_[static_cast<size_t>(peer)], is_local(peer), &link.socket));
  }
  *fd = link.ready ? link.socket.get() : -1;
  return ncclSuccess;
}

int Links::incoming(LinkUse use, int peer) const {
  const auto found = incoming_.find({use, peer});
  return found == incoming_.end() ? -1 : found->second.get();
}

void Links::add_polls(std::vector<pollfd>* polls) const {
  polls->push_back({.fd = listeners_.tcp.get(), .events = POLLIN, .revents = 0});
  polls->push_back({.fd = listeners_.local.get(), .events = POLLIN, .revents = 0});  // poll ignores -1
  for (const Newcomer& newcomer : newcomers_) {
    polls->push_back({.fd = newcomer.socket.get(), .events = POLLIN, .revents = 0});
  }
  for (const auto& [key, link] : outgoing_) {
    if (!link.ready) {
      polls->push_back({.fd = link.socket.get(), .events = POLLOUT, .revents = 0});
    }
  }
}

ncclResult_t Links::progress() {
  for (auto& [key, link] : outgoing_) {
    if (!link.ready) {
      NCCL_TRY(finish_connect(key, &link));
    }
  }
  return admit_newcomers();
}

ncclResult_t Links::finish_connect(Key key, Outgoing* link) {
  pollfd entry{.fd = link->socket.get(), .events = POLLOUT, .revents = 0};
  if (poll(&entry, 1, 0) <= 0) {
    return ncclSuccess;
  }
  const auto [use, peer] = key;
  if (const int error = connect_error(link->socket); error != 0) {
    NCCL_WARN("socketPollConnect: connect to %s failed : %s", to_text(peers_[static_cast<size_t>(peer)]).c_str(),
              strerror(error));
    return ncclRemoteError;
  }
  const Hello hello{.magic = magic_, .use = static_cast<uint32_t>(use), .rank = rank_};
  size_t moved = 0;
  NCCL_TRY(try_send(entry.fd, &hello, sizeof(hello), &moved));
  if (moved != sizeof(hello)) {
    NCCL_WARN("a new connection to rank %d has no room for its first %zu bytes", peer, sizeof(hello));
    return ncclSystemError;
  }
  link->ready = true;
  if (is_local(peer)) {
    info(kInit | kShm, "Channel 00 : %d[0] -> %d[0] via SHM/direct/direct", rank_, peer);
  } else {
    info(kInit | kNet, "Channel 00/0 : %d[0] -> %d[0] [send] via NET/Socket/0%s", rank_, peer,
         use == LinkUse::kRing ? "" : "/Shared");
  }
  return ncclSuccess;
}

ncclResult_t Links::accept_newcomers(const Socket& listener) {
  for (Socket socket; listener;) {
    NCCL_TRY(try_accept(listener, &socket));
    if (!socket) {
      break;
    }
    newcomers_.push_back({.socket = std::move(socket), .hello = {}, .got = 0});
    socket = Socket();
  }
  return ncclSuccess;
}

ncclResult_t Links::admit_newcomers() {
  NCCL_TRY(accept_newcomers(listeners_.tcp));
  NCCL_TRY(accept_newcomers(listeners_.local));
  std::erase_if(newcomers_, [this](Newcomer& newcomer) {
    size_t moved = 0;
    char* at = reinterpret_cast<char*>(&newcomer.hello) + newcomer.got;
    if (try_recv(newcomer.socket.get(), at, sizeof(Hello) - newcomer.got, &moved) != ncclSuccess) {
      return true;
    }
    newcomer.got += moved;
    if (newcomer.got < sizeof(Hello)) {
      return false;
    }
    if (newcomer.hello.magic == magic_) {
      const Key key{static_cast<LinkUse>(newcomer.hello.use), newcomer.hello.rank};
      incoming_.emplace(key, std::move(newcomer.socket));
      if (!is_local(key.second)) {
        info(kInit | kNet, "Channel 00/0 : %d[0] -> %d[0] [receive] via NET/Socket/0%s", key.second, rank_,
             key.first == LinkUse::kRing ? "" : "/Shared");
      }
    }
    return true;
  });
  return ncclSuccess;
}

}  // namespace lab::nccl
