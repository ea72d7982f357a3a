// SPDX-License-Identifier: Apache-2.0
#include "autopsy/sockets/namespace_sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>

#include "autopsy/sockets/diag.h"
#include "base/clock.h"
#include "base/handle.h"
#include "base/text.h"

namespace stalltrace::autopsy {
namespace {

constexpr int64_t kAnswerNs = kNsPerSecond;
constexpr size_t kMostDescriptors = 65'536;
constexpr size_t kMostSockets = 1U << 20;

std::unexpected<Error> failed(pid_t pid, std::string_view what, int error_number) {
  const ErrorKind kind = error_number == EPERM || error_number == EACCES   ? ErrorKind::kNoPrivilege
                         : error_number == ENOENT || error_number == ESRCH ? ErrorKind::kNotFound
                                                                           : ErrorKind::kFailed;
  return fail(fmt::format("{} of process {}: {}", what, pid, std::strerror(error_number)),
              kind == ErrorKind::kNoPrivilege ? "run as root" : "", kind);
}

struct NetlinkSocket {
  UniqueFd fd;
  int error_number = 0;
};

NetlinkSocket open_here() {
  NetlinkSocket opened{UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG))};
  opened.error_number = opened.fd ? 0 : errno;
  return opened;
}

/// A socket stays in the namespace in which it was made. A thread of its own enters the namespace and ends there.
NetlinkSocket open_in(int namespace_fd) {
  NetlinkSocket opened;
  std::thread([&] {
    if (::setns(namespace_fd, CLONE_NEWNET) == 0) {
      opened = open_here();
    } else {
      opened.error_number = errno;
    }
  }).join();
  return opened;
}

Status ask(int fd, uint8_t family, uint64_t netns, SocketsByInode& into) {
  const std::vector<std::byte> request = diag_request(family, family);
  if (::send(fd, request.data(), request.size(), 0) < 0) {
    return fail_errno("ask the kernel for TCP sockets", errno);
  }
  const int64_t until_ns = monotonic_now_ns() + kAnswerNs;
  std::vector<std::byte> datagram(1U << 16);
  for (;;) {
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    const int64_t left_ms = (until_ns - monotonic_now_ns()) / kNsPerMs;
    if (left_ms <= 0 || (::poll(&readable, 1, static_cast<int>(left_ms)) == 0) || into.size() > kMostSockets) {
      return fail("the kernel has too many TCP sockets to list in a second", "", ErrorKind::kInterrupted);
    }
    const ssize_t size = ::recv(fd, datagram.data(), datagram.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
      continue;
    }
    if (size <= 0) {
      return fail_errno("read the kernel's list of TCP sockets", errno);
    }
    DiagPart part = parse_diag(std::span(datagram).first(static_cast<size_t>(size)), netns);
    if (part.error && *part.error != ENOENT) {  // ENOENT: the kernel has no such family
      return fail_errno("list TCP sockets", *part.error);
    }
    for (TcpSocket& socket : part.sockets) {
      if (socket.inode != 0) {
        into.emplace(socket.inode, std::move(socket));
      }
    }
    if (part.done) {
      return {};
    }
  }
}

}  // namespace

Result<SocketsByInode> sockets_of_namespace(const Procfs& procfs, pid_t pid) {
  const uint64_t netns = procfs.netns(pid);
  NetlinkSocket socket;
  if (netns != 0 && netns == procfs.netns(::getpid())) {
    socket = open_here();
  } else {
    const UniqueFd file(::open(procfs.path(pid, "ns/net").c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
      return failed(pid, "open the network namespace", errno);
    }
    socket = open_in(file.get());
  }
  if (!socket.fd) {
    return failed(pid, "enter the network namespace", socket.error_number);
  }
  SocketsByInode sockets;
  for (const uint8_t family : {uint8_t{AF_INET}, uint8_t{AF_INET6}}) {
    ST_TRY(ask(socket.fd.get(), family, netns, sockets));
  }
  return sockets;
}

Result<std::set<uint64_t>> held_sockets(const Procfs& procfs, pid_t pid) {
  const std::unique_ptr<DIR, Free<closedir>> folder(::opendir(procfs.path(pid, "fd").c_str()));
  if (!folder) {
    return failed(pid, "list the descriptors", errno);
  }
  constexpr std::string_view kSocket = "socket:[";
  std::set<uint64_t> inodes;
  size_t seen = 0;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (entry->d_name[0] == '.') {
      continue;
    }
    if (++seen > kMostDescriptors) {
      break;
    }
    std::array<char, 64> target{};
    const ssize_t length =
        ::readlinkat(::dirfd(folder.get()), static_cast<const char*>(entry->d_name), target.data(), target.size());
    std::string_view link(target.data(), static_cast<size_t>(std::max<ssize_t>(0, length)));
    if (link.starts_with(kSocket) && link.ends_with(']')) {
      link = link.substr(kSocket.size(), link.size() - kSocket.size() - 1);
      if (const auto inode = parse_integer(link); inode && *inode > 0) {
        inodes.insert(static_cast<uint64_t>(*inode));
      }
    }
  }
  return inodes;
}

Result<std::vector<TcpSocket>> NamespaceSockets::of(pid_t pid) {
  ST_ASSIGN(const std::set<uint64_t> held, held_sockets(procfs_, pid));
  const uint64_t netns = procfs_.netns(pid);
  auto known = known_.find(netns);
  if (known == known_.end()) {
    known = known_.emplace(netns, sockets_of_namespace(procfs_, pid)).first;
    for (const auto& [inode, socket] : known->second ? *known->second : SocketsByInode()) {
      addresses_.insert(socket.local.address);
    }
  }
  ST_TRY(known->second ? Status() : Status(std::unexpected(known->second.error())));
  std::vector<TcpSocket> sockets;
  for (const uint64_t inode : held) {
    if (const auto found = known->second->find(inode); found != known->second->end()) {
      sockets.push_back(found->second);
    }
  }
  return sockets;
}

}  // namespace stalltrace::autopsy
