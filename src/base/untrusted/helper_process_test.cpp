// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/helper_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "base/clock.h"

namespace stalltrace {
namespace {

using Outcome = HelperProcess::Outcome;
using Rights = HelperProcess::Rights;

Outcome wait_for(HelperProcess& helper, HelperMessage& answer, int ms = 5000) {
  const int64_t until_ns = monotonic_now_ns() + ms * kNsPerMs;
  Outcome outcome = helper.receive(answer);
  while (outcome == Outcome::kWaiting && monotonic_now_ns() < until_ns) {
    pollfd one{.fd = helper.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&one, 1, 10);
    outcome = helper.receive(answer);
  }
  return outcome;
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

/// Waits until its end is seen.
void kill_and_wait(const HelperProcess& helper) {
  pollfd one{.fd = helper.descriptor(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::kill(helper.pid(), SIGKILL), 0);
  ASSERT_EQ(::poll(&one, 1, 5000), 1);
}

TEST(HelperProcess, OneThatDiedBetweenTwoRequestsCostsNone) {
  HelperProcess helper(misbehave, Rights::kOurs);
  HelperMessage answer;
  ASSERT_TRUE(helper.ask({.bytes = "hello", .fd = {}}));
  ASSERT_EQ(wait_for(helper, answer), Outcome::kAnswered);
  helper.check_idle();
  EXPECT_TRUE(helper.is_running());
  kill_and_wait(helper);
  ASSERT_TRUE(helper.ask({.bytes = "again", .fd = {}}));
  ASSERT_EQ(wait_for(helper, answer), Outcome::kAnswered);
  EXPECT_EQ(answer.bytes, "again!");
  kill_and_wait(helper);
  helper.check_idle();
  EXPECT_FALSE(helper.is_running());
  EXPECT_EQ(helper.descriptor(), -1) << "it would be readable all the time";
}

size_t open_descriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

/// Sends two descriptors with bytes of its own, and answers "refused" where it may not.
HelperMessage send_two_descriptors(HelperMessage request) {
  const std::array<int, 2> fds{0, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> control{};
  iovec bytes{.iov_base = request.bytes.data(), .iov_len = request.bytes.size()};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  *part = {.cmsg_len = CMSG_LEN(sizeof fds), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  std::memcpy(CMSG_DATA(part), fds.data(), sizeof fds);
  constexpr int kSocket = 3;
  return {.bytes = ::sendmsg(kSocket, &header, 0) < 0 ? "refused" : "sent", .fd = {}};
}

TEST(HelperProcess, DescriptorsThatWereNotAskedForAreClosed) {
  const size_t before = open_descriptors();
  HelperProcess helper(send_two_descriptors, Rights::kOurs);
  HelperMessage answer;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(helper.ask({.bytes = "x", .fd = {}}));
    EXPECT_EQ(wait_for(helper, answer), Outcome::kEnded) << "it sent an answer more than it was asked for";
    EXPECT_FALSE(helper.is_running());
  }
  EXPECT_EQ(open_descriptors(), before);
}

/// A file system may have its consent asked before its file is closed.
TEST(HelperProcess, WithoutRightsItCanSendNoDescriptor) {
  HelperProcess helper(send_two_descriptors, Rights::kNone);
  HelperMessage answer;
  ASSERT_TRUE(helper.ask({.bytes = "x", .fd = {}}));
  ASSERT_EQ(wait_for(helper, answer), Outcome::kAnswered);
  EXPECT_EQ(answer.bytes, "refused");
}

/// Sends an answer before it returns one: the parent has bytes then, while the request is not done.
HelperMessage answer_and_hang(HelperMessage request) {
  constexpr int kSocket = 3;
  ::send(kSocket, request.bytes.data(), request.bytes.size(), 0);
  while (request.bytes == "hang") {
    ::pause();
  }
  return {.bytes = "d", .fd = {}};  // what follows an answer
}

/// One that hangs while it closes its files is not asked for another user's.
TEST(HelperProcess, ARequestIsOpenUntilTheHelperHasLetGoOfIt) {
  HelperProcess helper(answer_and_hang, Rights::kOurs);
  HelperMessage answer;
  ASSERT_TRUE(helper.ask({.bytes = "hang", .fd = {}}));
  EXPECT_EQ(wait_for(helper, answer, 100), Outcome::kWaiting);
  helper.check_idle();
  EXPECT_TRUE(helper.is_running());
  const pid_t pid = helper.pid();
  ASSERT_TRUE(helper.ask({.bytes = "next", .fd = {}}));
  EXPECT_NE(helper.pid(), pid);
  ASSERT_EQ(wait_for(helper, answer), Outcome::kAnswered);
  EXPECT_EQ(answer.bytes, "next");
}

/// Whether a page at the address in the request is mapped: madvise is allowed, and knows.
HelperMessage is_mapped(HelperMessage request) {
  uintptr_t address = 0;
  std::memcpy(&address, request.bytes.data(), sizeof address);
  const bool mapped = ::madvise(reinterpret_cast<void*>(address), 4096, MADV_NORMAL) == 0;
  return {.bytes = mapped ? "mapped" : "not mapped", .fd = {}};
}

/// The tracer's rings are such memory: a parser that was taken over could write into them.
TEST(HelperProcess, MemoryThatItsParentSharesIsOutOfReach) {
  for (const Rights rights : {Rights::kNone, Rights::kOurs}) {
    HelperProcess helper(is_mapped, rights);
    HelperMessage answer;
    for (const int kind : {MAP_SHARED, MAP_PRIVATE}) {
      void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(page, MAP_FAILED);
      helper.end();  // the next has what is mapped now
      const auto address = reinterpret_cast<uintptr_t>(page);
      ASSERT_TRUE(
          helper.ask({.bytes = std::string(reinterpret_cast<const char*>(&address), sizeof address), .fd = {}}));
      ASSERT_EQ(wait_for(helper, answer), Outcome::kAnswered);
      EXPECT_EQ(answer.bytes, kind == MAP_SHARED ? "not mapped" : "mapped");
      ::munmap(page, 4096);
    }
  }
}

TEST(HelperProcess, DiesWithItsParentWhateverItDoes) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    HelperProcess helper(misbehave, Rights::kOurs);
    const bool asked = helper.ask({.bytes = "hang", .fd = {}}).has_value();
    ::usleep(100'000);  // now it hangs
    const pid_t pid = asked ? helper.pid() : 0;
    (void)!::write(ends[1], &pid, sizeof pid);
    ::pause();
  }
  pid_t helper = 0;
  ASSERT_EQ(::read(ends[0], &helper, sizeof helper), static_cast<ssize_t>(sizeof helper));
  ASSERT_GT(helper, 0);
  ASSERT_EQ(::kill(parent, SIGKILL), 0);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  pid_t ended = 0;
  for (int i = 0; i < 500 && ended == 0; ++i) {
    ended = ::waitpid(helper, nullptr, WNOHANG);
    ::usleep(10'000);
  }
  EXPECT_EQ(ended, helper);
  if (ended != helper) {
    ::kill(helper, SIGKILL);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace stalltrace
