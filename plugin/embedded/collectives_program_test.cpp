// SPDX-License-Identifier: Apache-2.0
#include "plugin/embedded/collectives_program.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <string>

#include "base/clock.h"
#include "base/io/poll_until.h"
#include "base/io/write_all.h"
#include "base/process/subprocess.h"

namespace stalltrace {
namespace {

TEST(CollectivesProgram, FollowsOrdersAndEndsWithItsParent) {
  auto program = open_collectives_program();
  ASSERT_TRUE(program) << program.error().what;
  EXPECT_GE(program->get(), kFirstDescriptor);
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  UniqueFd ours(ends[0]);
  UniqueFd its(ends[1]);
  auto child = Subprocess::spawn({.argv = {"/proc/self/fd/" + std::to_string(program->get())},
                                  .inherited_fds = {{its.get(), 3}},
                                  .parent_death_signal = SIGKILL});
  ASSERT_TRUE(child) << child.error().what;
  its.reset();
  ASSERT_TRUE(write_all(ours.get(), "load 0 /nowhere/libnccl.so.2\nrun AllReduce 8 1 1\n"));
  std::string answers;
  while (std::ranges::count(answers, '\n') < 2 && wait_readable(ours.get(), monotonic_now_ns() + 10 * kNsPerSecond)) {
    std::array<char, 4096> piece{};
    const ssize_t got = ::read(ours.get(), piece.data(), piece.size());
    ASSERT_GT(got, 0);
    answers.append(piece.data(), static_cast<size_t>(got));
  }
  EXPECT_TRUE(answers.starts_with("error /nowhere/libnccl.so.2")) << answers;
  EXPECT_NE(answers.find("\nerror "), std::string::npos) << answers;
  ours.reset();
  const auto ended = child->wait_for(std::chrono::seconds(10));
  ASSERT_TRUE(ended && *ended);
  EXPECT_TRUE((*ended)->success()) << format_exit(**ended);
}

}  // namespace
}  // namespace stalltrace
