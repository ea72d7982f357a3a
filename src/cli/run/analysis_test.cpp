// SPDX-License-Identifier: Apache-2.0
#include "cli/run/analysis.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <new>

namespace stalltrace::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};

Result<bool> of(const std::function<bool()>& work, milliseconds limit = kLong) {
  return analyse(work, limit, [] { return kLong; });
}

TEST(Analysis, ItsResultIsTheWorks) {
  EXPECT_TRUE(of([] { return true; }).value_or(false));
  EXPECT_FALSE(of([] { return false; }).value_or(true));
}

TEST(Analysis, ItsDeathIsAnErrorAndNoMore) {
  const auto killed = of([] { return ::kill(::getpid(), SIGKILL) != 0; });
  ASSERT_FALSE(killed);
  EXPECT_EQ(killed.error().what, "the analysis was ended by signal 9 (Killed)");
  const auto without_memory = of([]() -> bool { throw std::bad_alloc(); });
  ASSERT_FALSE(without_memory);
  EXPECT_EQ(without_memory.error().what, "the analysis gave up");
}

TEST(Analysis, ItTakesNoMoreThanItsTime) {
  const auto began = std::chrono::steady_clock::now();
  const auto forever = [] {
    ::pause();
    return true;
  };
  const auto late = of(forever, milliseconds(50));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().what, "the analysis takes too long, and was killed");
  const auto shortened = analyse(forever, kLong, [] { return milliseconds(0); });
  EXPECT_FALSE(shortened);
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(10'000));
}

}  // namespace
}  // namespace stalltrace::cli
