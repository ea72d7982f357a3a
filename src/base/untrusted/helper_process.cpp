// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/helper_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "base/untrusted/sandbox.h"

namespace stalltrace {
namespace {

constexpr size_t kMostBytes = 64 << 10;
constexpr size_t kMostEnded = 8;  // helpers that hang in the kernel
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

/// Bytes received; 0: the other end is closed. -1: see errno.
ssize_t receive_message(int socket, HelperMessage& message, int flags) {
  message.bytes.resize(kMostBytes);
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
  const cmsghdr* part = got > 0 ? CMSG_FIRSTHDR(&header) : nullptr;
  if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
      part->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
    message.fd = UniqueFd(fd);
  }
  return got;
}

/// The child's main function: it keeps no descriptor of the parent open but the socket.
[[noreturn]] void run_helper(int socket, HelperProcess::Serve serve, HelperProcess::Rights rights) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);  // Ctrl-C ends the parent, which closes the socket
  ::prctl(PR_SET_NAME, "stalltrace-file");
  const int kept = ::fcntl(socket, F_DUPFD_CLOEXEC, kSocketInChild + 1);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {0, 1, 2}) {
    ::dup2(null, standard);
  }
  if (kept < 0 || ::dup2(kept, kSocketInChild) < 0 ||
      ::syscall(SYS_close_range, kSocketInChild + 1, UINT_MAX, 0) != 0 ||
      (rights == HelperProcess::Rights::kNone && !enter_sandbox())) {
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

HelperProcess::~HelperProcess() {
  end();
  constexpr int kRounds = 20;
  for (int i = 0; i < kRounds && !ended_.empty(); ++i) {
    reap();
    if (!ended_.empty()) {
      ::usleep(1000);
    }
  }
}

void HelperProcess::reap() {
  std::erase_if(ended_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
}

Status HelperProcess::start() {
  if (socket_) {
    return {};
  }
  reap();
  if (ended_.size() >= kMostEnded) {
    return fail("too many helpers hang in the kernel");
  }
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return fail_errno("socketpair", errno);
  }
  UniqueFd ours(pair[0]);
  const UniqueFd its(pair[1]);
  const pid_t child = ::fork();
  if (child < 0) {
    return fail_errno("fork", errno);
  }
  if (child == 0) {
    run_helper(its.get(), serve_, rights_);
  }
  pid_ = child;
  socket_ = std::move(ours);
  return {};
}

Status HelperProcess::ask(const HelperMessage& request) {
  ST_TRY(start());
  if (!send_message(socket_.get(), request, MSG_DONTWAIT)) {
    const int error = errno;
    end();
    return fail_errno("ask a helper", error);
  }
  return {};
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

void HelperProcess::end() {
  if (socket_) {
    socket_.reset();
    ::kill(pid_, SIGKILL);
    ended_.push_back(pid_);
    pid_ = 0;
  }
  reap();
}

}  // namespace stalltrace
