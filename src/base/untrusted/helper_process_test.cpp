// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/helper_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "base/clock.h"

namespace stalltrace {
namespace {

using Outcome = HelperProcess::Outcome;
using Rights = HelperProcess::Rights;

Outcome wait_for(HelperProcess& helper, HelperMessage& answer, int ms = 5000) {
  pollfd one{.fd = helper.descriptor(), .events = POLLIN, .revents = 0};
  ::poll(&one, 1, ms);
  return helper.receive(answer);
}

/// What a subverted parser might try; each answer is a letter.
HelperMessage try_all(HelperMessage request) {
  std::string result;
  result += ::open("/proc/self/status", O_RDONLY) < 0 ? '-' : 'o';
  result += ::fork() < 0 ? '-' : 'f';
  result += ::kill(::getppid(), 0) < 0 ? '-' : 'k';
  result += ::syscall(SYS_socket, 1, 1, 0) < 0 ? '-' : 's';
  result += ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? '-' : 'x';
  result +=
      ::mmap(nullptr, 1U << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? '-' : 'm';
  result += ::write(request.fd.get(), "x", 1) < 0 ? '-' : 'w';
  char byte = '?';
  result += ::pread(request.fd.get(), &byte, 1, 0) == 1 ? byte : '?';
  return {.bytes = result, .fd = {}};
}

TEST(HelperProcess, WithoutRightsItReadsWhatItIsGivenAndNothingElse) {
  HelperProcess helper(try_all, Rights::kNone);
  const UniqueFd file(::memfd_create("file", MFD_CLOEXEC));
  ASSERT_EQ(::write(file.get(), "A", 1), 1);
  HelperMessage answer;
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(helper.ask({.bytes = "try", .fd = UniqueFd(::dup(file.get()))}));
    ASSERT_EQ(wait_for(helper, answer), Outcome::kAnswered);
    EXPECT_EQ(answer.bytes, "-------A");
  }
}

HelperMessage misbehave(HelperMessage request) {
  if (request.bytes == "die") {
    std::abort();
  }
  while (request.bytes == "hang") {
    ::pause();
  }
  return {.bytes = request.bytes + "!", .fd = UniqueFd(::open("/proc/self/status", O_RDONLY))};
}

TEST(HelperProcess, ItsDeathIsSeenAndTheNextRequestHasANewOne) {
  HelperProcess helper(misbehave, Rights::kOurs);
  HelperMessage answer;
  ASSERT_TRUE(helper.ask({.bytes = "die", .fd = {}}));
  EXPECT_EQ(wait_for(helper, answer), Outcome::kEnded);
  EXPECT_FALSE(helper.is_running());
  ASSERT_TRUE(helper.ask({.bytes = "hello", .fd = {}}));
  ASSERT_EQ(wait_for(helper, answer), Outcome::kAnswered);
  EXPECT_EQ(answer.bytes, "hello!");
  EXPECT_TRUE(answer.fd);
}

TEST(HelperProcess, OneThatHangsIsEndedWithoutWaiting) {
  HelperProcess helper(misbehave, Rights::kOurs);
  HelperMessage answer;
  ASSERT_TRUE(helper.ask({.bytes = "hang", .fd = {}}));
  EXPECT_EQ(wait_for(helper, answer, 50), Outcome::kWaiting);
  const pid_t pid = helper.pid();
  const int64_t begun_ns = monotonic_now_ns();
  helper.end();
  EXPECT_LT(monotonic_now_ns() - begun_ns, kNsPerSecond);
  ASSERT_TRUE(helper.ask({.bytes = "again", .fd = {}}));
  EXPECT_NE(helper.pid(), pid);
  EXPECT_EQ(wait_for(helper, answer), Outcome::kAnswered);
}

}  // namespace
}  // namespace stalltrace
