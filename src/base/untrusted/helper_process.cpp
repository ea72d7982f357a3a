// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/helper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/process/descriptors.h"
#include "base/untrusted/helper_child.h"
#include "base/untrusted/sandbox.h"

namespace stalltrace {
namespace {

constexpr size_t kMostMessageBytes = 64 << 10;
constexpr size_t kMostKilled = 32;          // helpers that hang in the kernel; callers have shares of users
constexpr int64_t kHangsNs = kNsPerSecond;  // after SIGKILL; others are dying
constexpr int kSocketInChild = 3;

bool send_message(int socket, const HelperMessage& message, int flags) {
  iovec bytes{.iov_base = const_cast<char*>(message.bytes.data()), .iov_len = message.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  if (message.fd) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = message.fd.get();
    std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
  }
  return ::sendmsg(socket, &header, flags | MSG_NOSIGNAL) == static_cast<ssize_t>(message.bytes.size());
}

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

/// Bytes received; 0: the other end is closed. -1: see errno.
ssize_t receive_message(int socket, HelperMessage& message, int flags) {
  message.bytes.resize(kMostMessageBytes);
  iovec bytes{.iov_base = message.bytes.data(), .iov_len = message.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
  message.bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  message.fd.reset();
  std::vector<UniqueFd> received = got >= 0 ? descriptors_of(header) : std::vector<UniqueFd>();
  if (received.size() == 1) {
    message.fd = std::move(received.front());
  }
  return got;
}

/// The child's main function: it keeps no descriptor of the parent open but the socket.
[[noreturn]] void run_helper(int socket, pid_t parent, HelperProcess::Serve serve, HelperProcess::Rights rights) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);  // Ctrl-C ends the parent, which closes the socket
  ::prctl(PR_SET_NAME, "stalltrace-file");
  if (::dup2(socket, kSocketInChild) < 0) {
    ::_exit(1);
  }
  close_all_but(kSocketInChild);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {0, 1, 2}) {
    ::dup2(null, standard);
  }
  if (!die_with_parent(parent) || !unmap_shared_memory() ||
      (rights == HelperProcess::Rights::kNone && !enter_sandbox(parent))) {
    ::_exit(1);
  }
  HelperMessage request;
  while (receive_message(kSocketInChild, request, 0) > 0) {
    HelperMessage answer = serve(std::move(request));
    if (!send_message(kSocketInChild, answer, 0)) {
      break;
    }
    request = {};
  }
  ::_exit(0);
}

}  // namespace

Status HelperProcess::start() {
  if (socket_) {
    return {};
  }
  if (killed_.alive_after(0) >= kMostKilled) {
    return fail("too many helpers hang in the kernel");
  }
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return fail_errno("socketpair", errno);
  }
  UniqueFd ours(pair[0]);
  const UniqueFd its(pair[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    return fail_errno("fork", errno);
  }
  if (child == 0) {
    run_helper(its.get(), parent, serve_, rights_);
  }
  pid_ = child;
  socket_ = std::move(ours);
  return {};
}

Status HelperProcess::ask(const HelperMessage& request, const ChildsWork& work) {
  for (bool may_be_dead = is_running();; may_be_dead = false) {
    ST_TRY(start());
    work_ = work;
    if (send_message(socket_.get(), request, MSG_DONTWAIT)) {
      return {};
    }
    const int error = errno;
    end();
    if (!may_be_dead) {
      return fail_errno("ask a helper", error);
    }
  }
}

size_t HelperProcess::hanging(const std::function<bool(const ChildsWork&)>& which) {
  return killed_.alive_after(kHangsNs, which);
}

HelperProcess::Outcome HelperProcess::receive(HelperMessage& answer) {
  if (!socket_) {
    return Outcome::kEnded;
  }
  const ssize_t got = receive_message(socket_.get(), answer, MSG_DONTWAIT);
  if (got > 0) {
    return Outcome::kAnswered;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return Outcome::kWaiting;
  }
  end();
  return Outcome::kEnded;
}

std::optional<HelperMessage> HelperProcess::ask_and_wait(const HelperMessage& request, int64_t most_ns) {
  const int64_t until_ns = monotonic_now_ns() + most_ns;
  if (!ask(request)) {
    return std::nullopt;
  }
  HelperMessage answer;
  Outcome outcome = receive(answer);
  for (int64_t left_ns = most_ns; outcome == Outcome::kWaiting && left_ns > 0;
       left_ns = until_ns - monotonic_now_ns()) {
    pollfd wake{.fd = descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&wake, 1, static_cast<int>(left_ns / kNsPerMs) + 1);
    outcome = receive(answer);
  }
  if (outcome != Outcome::kAnswered) {
    end();
    return std::nullopt;
  }
  return answer;
}

void HelperProcess::check_idle() {
  killed_.reap();
  char byte = 0;
  if (socket_ &&
      (::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR))) {
    end();
  }
}

void HelperProcess::end() {
  if (socket_) {
    socket_.reset();
    killed_.kill(pid_, work_);
    pid_ = 0;
  }
}

}  // namespace stalltrace
