// SPDX-License-Identifier: Apache-2.0
#include "launch/group_signal_probe.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "base/file.h"

namespace stalltrace::launch {
namespace {

using std::chrono::milliseconds;

/// Runs in a process that leads its own group and holds SIGUSR1 and SIGTERM.
bool holds_in_a_group(const std::function<bool()>& check) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    sigset_t held;
    ::sigemptyset(&held);
    ::sigaddset(&held, SIGUSR1);
    ::sigaddset(&held, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &held, nullptr);
    ::_exit(check() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status == 0;
}

TEST(GroupSignalProbe, GetsWhatIsForTheGroupAndNothingElse) {
  EXPECT_TRUE(holds_in_a_group([] {
    GroupSignalProbe witness;
    ::kill(::getpid(), SIGUSR1);
    return !witness.got(SIGUSR1, milliseconds(20));
  }));
  EXPECT_TRUE(holds_in_a_group([] {
    GroupSignalProbe witness;
    ::kill(0, SIGUSR1);
    return witness.got(SIGUSR1, milliseconds(0));
  }));
}

TEST(GroupSignalProbe, EveryOneIsReportedOnceAndApart) {
  EXPECT_TRUE(holds_in_a_group([] {
    GroupSignalProbe witness;
    ::kill(0, SIGUSR1);
    ::kill(0, SIGTERM);
    const bool first = witness.got(SIGUSR1, milliseconds(0)) && !witness.got(SIGUSR1, milliseconds(0));
    const bool other = witness.got(SIGTERM, milliseconds(0));
    ::kill(0, SIGUSR1);
    return first && other && witness.got(SIGUSR1, milliseconds(0));
  }));
}

TEST(GroupSignalProbe, OneThatIsKilledSaysNothing) {
  EXPECT_TRUE(holds_in_a_group([] {
    GroupSignalProbe witness;
    ::kill(witness.pid(), SIGKILL);
    ::usleep(50'000);
    ::kill(0, SIGUSR1);
    return !witness.got(SIGUSR1, milliseconds(20));
  }));
}

TEST(GroupSignalProbe, IsNotMetByNamesThatMeanUs) {
  const GroupSignalProbe witness;
  const std::string folder = "/proc/" + std::to_string(witness.pid());
  EXPECT_EQ(read_file(folder + "/comm").value_or(""), "signal-watch\n");
  const std::string line = read_file(folder + "/cmdline").value_or("");
  EXPECT_EQ(line.find("test_cli"), std::string::npos) << line;
  EXPECT_TRUE(line.starts_with("signal-watch")) << line;
}

TEST(GroupSignalProbe, GoesWithItsMaker) {
  pid_t pid = 0;
  {
    const GroupSignalProbe witness;
    pid = witness.pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

}  // namespace
}  // namespace stalltrace::launch
