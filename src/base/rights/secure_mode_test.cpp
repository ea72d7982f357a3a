// SPDX-License-Identifier: Apache-2.0
// What is ignored where a program has rights that its user lacks. tests/cli/secure_mode_test.py runs such a program.
#include "base/rights/secure_mode.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/golden_text.h"

namespace stalltrace {
namespace {

constexpr std::array<const char*, 6> kEnvironment{"TMPDIR=/home/eve",   "STALLTRACE_BTF=/home/eve/btf",
                                                  "PATH=/home/eve/bin", "TMPDIRS=1",
                                                  "STALLTRACE_NODE=a",  nullptr};

TEST(SecureMode, IgnoresWhatChoosesFiles) {
  EXPECT_EQ(ignored_in_secure_mode(kEnvironment.data()), (std::vector<std::string>{"STALLTRACE_BTF", "TMPDIR"}));
}

TEST(SecureMode, SaysSoInOneLineAndOnlyThere) {
  golden::expect_text(secure_mode_line(true, kEnvironment.data()));
  EXPECT_EQ(secure_mode_line(false, kEnvironment.data()), "");
  const std::array<const char*, 2> plain{"PATH=/usr/bin", nullptr};
  EXPECT_EQ(secure_mode_line(true, plain.data()), "");
}

TEST(SecureMode, ATestHasNoRightsOfItsFile) {
  EXPECT_FALSE(in_secure_mode());
  EXPECT_NE(trusted_variable("PATH"), nullptr);
}

}  // namespace
}  // namespace stalltrace
