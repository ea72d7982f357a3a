// SPDX-License-Identifier: Apache-2.0
#include "launch/supervision/channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>

namespace stalltrace::launch {
namespace {

constexpr size_t kMostBytes = 64U << 10;

}  // namespace

Result<std::pair<Channel, Channel>> Channel::make() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail_errno("make a socket", errno);
  }
  return std::pair(Channel(UniqueFd(ends[0])), Channel(UniqueFd(ends[1])));
}

bool Channel::send(MessageKind kind, std::string_view bytes) noexcept {
  std::array<iovec, 2> parts{{{.iov_base = &kind, .iov_len = sizeof kind},
                              {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()}}};
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = parts.size();
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof kind + bytes.size());
}

std::optional<Message> Channel::receive() {
  if (closed_) {
    return std::nullopt;
  }
  Message message;
  message.bytes.resize(kMostBytes);
  std::array<iovec, 2> parts{{{.iov_base = &message.kind, .iov_len = sizeof message.kind},
                              {.iov_base = message.bytes.data(), .iov_len = message.bytes.size()}}};
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = parts.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) {
    closed_ = got == 0 || errno != EAGAIN;
    return std::nullopt;
  }
  message.bytes.resize(static_cast<size_t>(got) - sizeof message.kind);
  return message;
}

}  // namespace stalltrace::launch
