// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/helper_message.h"

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

namespace stalltrace {
namespace {

constexpr size_t kMostMessageBytes = 64 << 10;

/// All that came with a message, asked for or not: what is not owned stays open.
std::vector<UniqueFd> descriptors_of(msghdr& header) {
  std::vector<UniqueFd> received;
  for (const cmsghdr* part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, const_cast<cmsghdr*>(part))) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      received.emplace_back(fd);
    }
  }
  return received;
}

}  // namespace

bool send_message(int socket, const HelperMessage& message, int flags) {
  const auto size = static_cast<ssize_t>(message.bytes.size());
  if (!message.fd) {
    return ::send(socket, message.bytes.data(), message.bytes.size(), flags | MSG_NOSIGNAL) == size;
  }
  iovec bytes{.iov_base = const_cast<char*>(message.bytes.data()), .iov_len = message.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = message.fd.get();
  std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
  return ::sendmsg(socket, &header, flags | MSG_NOSIGNAL) == size;
}

ssize_t receive_message(int socket, HelperMessage& message, int flags, PassedFiles files) {
  message.bytes.resize(kMostMessageBytes);
  iovec bytes{.iov_base = message.bytes.data(), .iov_len = message.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  if (files == PassedFiles::kTaken) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  const ssize_t got = ::recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
  message.bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  message.fd.reset();
  std::vector<UniqueFd> received = got >= 0 ? descriptors_of(header) : std::vector<UniqueFd>();
  if (received.size() == 1) {
    message.fd = std::move(received.front());
  }
  return got;
}

}  // namespace stalltrace
