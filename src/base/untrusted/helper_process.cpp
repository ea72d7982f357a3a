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
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/process/descriptors.h"
#include "base/untrusted/helper_child.h"
#include "base/untrusted/sandbox.h"

namespace stalltrace {
namespace {

constexpr size_t kMostKilled = 32;          // helpers that hang in the kernel; callers have shares of users
constexpr int64_t kHangsNs = kNsPerSecond;  // after SIGKILL; others are dying
constexpr int kSocketInChild = 3;
constexpr std::string_view kDone = "d";  // follows each answer

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
    HelperMessage answer = serve(std::move(request));  // which closes what came with the request
    const bool sent = send_message(kSocketInChild, answer, 0);
    answer = {};
    if (!sent || !send_message(kSocketInChild, {.bytes = std::string(kDone), .fd = {}}, 0)) {
      break;
    }
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
  if (is_asked_) {
    end();  // what it may hang in is the last request's
  }
  for (bool may_be_dead = is_running();; may_be_dead = false) {
    ST_TRY(start());
    work_ = work;
    if (send_message(socket_.get(), request, MSG_DONTWAIT)) {
      is_asked_ = true;
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
  const auto files = rights_ == Rights::kOurs ? PassedFiles::kTaken : PassedFiles::kRefused;
  HelperMessage message;
  ssize_t got = receive_message(socket_.get(), message, MSG_DONTWAIT, files);
  if (got > 0 && !has_answer_) {
    has_answer_ = true;
    answer_ = std::move(message);
    got = receive_message(socket_.get(), message, MSG_DONTWAIT, files);
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return Outcome::kWaiting;
  }
  if (got <= 0 || message.bytes != kDone) {
    end();
    return Outcome::kEnded;
  }
  is_asked_ = false;
  has_answer_ = false;
  answer = std::exchange(answer_, {});
  return Outcome::kAnswered;
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
  if (socket_ && !is_asked_ &&
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
  is_asked_ = false;
  has_answer_ = false;
  answer_ = {};
}

}  // namespace stalltrace
