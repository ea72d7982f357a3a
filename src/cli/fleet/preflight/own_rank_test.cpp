// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/preflight/own_rank.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <string>

#include "base/io/pipe.h"
#include "base/io/poll_until.h"

namespace stalltrace::cli {
namespace {

OwnRank start(const std::function<Result<bool>()>& take_part) {
  auto rank = OwnRank::start(take_part);
  EXPECT_TRUE(rank.has_value());
  return *std::move(rank);
}

TEST(OwnRank, ItsFailureComesBackOnce) {
  const Error error{.what = "the port is taken", .remedy = "choose another"};
  OwnRank rank = start([&]() -> Result<bool> { return std::unexpected(error); });
  const auto failure = rank.wait();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->what, error.what);
  EXPECT_EQ(failure->remedy, error.remedy);
  EXPECT_FALSE(rank.failure());
}

TEST(OwnRank, IsNotWaitedForWhileItRuns) {
  for (const bool failed_check : {true, false}) {
    auto pipe = make_pipe();
    ASSERT_TRUE(pipe.has_value());
    OwnRank rank = start([&]() -> Result<bool> {
      pipe->write_end.reset();
      (void)wait_readable(pipe->read_end.get(), kNoEnd);
      return failed_check;
    });
    EXPECT_FALSE(rank.failure());
    pipe->write_end.reset();
    EXPECT_FALSE(rank.wait()) << "whether a check failed is no failure of the rank";
  }
}

TEST(OwnRank, ALongReasonIsCut) {
  const std::string text(1 << 20, 'x');  // more than a pipe holds: nothing reads while wait() waits
  const auto failure = start([&]() -> Result<bool> { return fail(text, text); }).wait();
  ASSERT_TRUE(failure);
  for (const std::string& cut : {failure->what, failure->remedy}) {
    EXPECT_GT(cut.size(), 1000U);
    EXPECT_LT(cut.size(), 4096U);
    EXPECT_TRUE(cut.ends_with("x..."));
  }
}

TEST(OwnRank, LackOfMemoryIsAReasonAndItsDeathIsNone) {
  const auto failure = start([]() -> Result<bool> { throw std::bad_alloc(); }).wait();
  ASSERT_TRUE(failure);
  EXPECT_FALSE(failure->what.empty());
  EXPECT_FALSE(start([]() -> Result<bool> { return ::kill(::getpid(), SIGKILL) == 0; }).wait());
}

}  // namespace
}  // namespace stalltrace::cli
