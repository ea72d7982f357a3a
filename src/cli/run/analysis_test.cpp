// SPDX-License-Identifier: Apache-2.0
#include "cli/run/analysis.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <string>

#include "tests/support/golden_text.h"

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

TEST(Analysis, ItsAnswerComesWithSuccessOnly) {
  const auto look = [] { return kLong; };
  std::string answer = "an old one";
  const auto give = [](bool good) {
    return [good](std::string& own) {
      own = "what it found";
      return good;
    };
  };
  EXPECT_TRUE(analyse(give(true), kLong, look, answer).value_or(false));
  EXPECT_EQ(answer, "what it found");
  EXPECT_FALSE(analyse(give(false), kLong, look, answer).value_or(true));
  EXPECT_EQ(answer, "");
}

TEST(Analysis, ItsDeathIsAnErrorAndNoMore) {
  const auto killed = of([] { return ::kill(::getpid(), SIGKILL) != 0; });
  ASSERT_FALSE(killed);
  golden::expect_text(killed.error().what);
  const auto without_memory = of([]() -> bool { throw std::bad_alloc(); });
  ASSERT_FALSE(without_memory);
  golden::expect_text(without_memory.error().what);
}

TEST(Analysis, ItTakesNoMoreThanItsTime) {
  const auto began = std::chrono::steady_clock::now();
  const auto forever = [] {
    ::pause();
    return true;
  };
  const auto late = of(forever, milliseconds(50));
  ASSERT_FALSE(late);
  golden::expect_text(late.error().what);
  const auto shortened = analyse(forever, kLong, [] { return milliseconds(0); });
  EXPECT_FALSE(shortened);
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(10'000));
}

}  // namespace
}  // namespace stalltrace::cli
