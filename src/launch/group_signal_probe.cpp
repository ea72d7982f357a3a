// SPDX-License-Identifier: Apache-2.0
#include "launch/group_signal_probe.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/process/descriptors.h"

namespace stalltrace::launch {
namespace {

using std::chrono::milliseconds;

constexpr const char* kName = "signal-watch";
constexpr int kAnswerMs = 1000;

/// Takes another name, so that a user who signals processes by our name, or by words of our command line, reaches only
/// us.
void take_own_name() {
  ::prctl(PR_SET_NAME, kName);
  const size_t room = read_file("/proc/self/cmdline").value_or("").size();
  if (room > std::strlen(kName)) {
    std::memset(program_invocation_name, 0, room);  // the kernel reads the command line here
    std::memcpy(program_invocation_name, kName, std::strlen(kName));
  }
}

[[noreturn]] void be_witness(int channel, pid_t parent) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) {
    ::_exit(0);
  }
  take_own_name();
  (void)!::chdir("/");
  close_all_but(channel);
  unsigned char number = 0;
  while (::read(channel, &number, 1) == 1) {
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, number);
    constexpr timespec kNow{};
    ::sigtimedwait(&one, nullptr, &kNow);
    if (::write(channel, &number, 1) != 1) {
      break;
    }
  }
  ::_exit(0);
}

}  // namespace

GroupSignalProbe::GroupSignalProbe() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return;
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    be_witness(theirs.get(), parent);
  }
  if (pid > 0) {
    pid_ = pid;
    channel_ = std::move(ours);
    forget(SIGHUP);  // once it answers, all its signals are blocked
  }
}

GroupSignalProbe::~GroupSignalProbe() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

bool GroupSignalProbe::is_pending(int signal_number) const {
  constexpr std::string_view kField = "\nShdPnd:";
  const std::string status = read_file(fmt::format("/proc/{}/status", pid_)).value_or("");
  const size_t field = status.find(kField);
  return field != std::string::npos &&
         (std::strtoull(status.c_str() + field + kField.size(), nullptr, 16) >> (signal_number - 1) & 1) != 0;
}

bool GroupSignalProbe::got(int signal_number, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (channel_) {
    if (is_pending(signal_number)) {
      forget(signal_number);
      return true;
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= left.zero()) {
      break;
    }
    std::this_thread::sleep_for(std::min(left, milliseconds(2)));
  }
  return false;
}

void GroupSignalProbe::forget(int signal_number) {
  const auto number = static_cast<unsigned char>(signal_number);
  unsigned char answer = 0;
  pollfd wait{.fd = channel_.get(), .events = POLLIN, .revents = 0};
  const bool forgotten = ::send(channel_.get(), &number, 1, MSG_NOSIGNAL) == 1 && ::poll(&wait, 1, kAnswerMs) == 1 &&
                         ::recv(channel_.get(), &answer, 1, MSG_DONTWAIT) == 1;
  if (!forgotten) {
    channel_.reset();  // its content would be taken for the answer to the next signal
  }
}

}  // namespace stalltrace::launch
