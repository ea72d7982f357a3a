// SPDX-License-Identifier: Apache-2.0
#include "cli/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/golden_text.h"

namespace stalltrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Config, NamesTheNodeAndItsLibraries) {
  const auto config = parse_config(
      "# a comment\nnode = \"rack7\"\nlibraries = [\"/a/libnccl.so\", \"/b\"]\ntrusted_owners = [\"12\"]\n"
      "nodes = [\"gpu[1-2]\", \"login:7701\"]\n",
      "f");
  ASSERT_TRUE(config) << config.error().what;
  EXPECT_EQ(config->node, "rack7");
  EXPECT_THAT(config->libraries, ElementsAre("/a/libnccl.so", "/b"));
  EXPECT_THAT(config->trusted_owners, ElementsAre("12"));
  EXPECT_THAT(config->nodes, ElementsAre("gpu[1-2]", "login:7701"));
}

TEST(Config, AnEmptyFileSetsNothing) {
  const auto config = parse_config("", "f");
  ASSERT_TRUE(config) << config.error().what;
  EXPECT_TRUE(config->node.empty());
  EXPECT_TRUE(config->libraries.empty());
}

TEST(Config, ErrorsNameFileAndLine) {
  for (const char* text : {"\nnode = ", "\nnode = 3", "\nhosts = \"a\"", "\nnodes = \"a\"", "\nlibraries = \"a\"",
                           "\nlibraries = [1]", "\ntrusted_owners = [12]"}) {
    const auto config = parse_config(text, "site.toml");
    ASSERT_FALSE(config) << text;
    golden::expect_text(config.error().what);
    EXPECT_EQ(config.error().kind, ErrorKind::kUsage);
  }
}

/// toml++ has an assertion there (found by the fuzz target `config`).
TEST(Config, ATableWithoutANameIsAnError) {
  const auto config = parse_config("node = 'a'\n[=able]\n", "stalltrace.toml");
  ASSERT_FALSE(config);
  golden::expect_text(config.error().what);
}

/// toml++ has undefined behaviour for some characters (found by the fuzz target `config`).
TEST(Config, ACharacterThatIsNoKeyIsAnError) {
  for (const char* text : {"\xef\xbb\xa7", "node \xef\xba\xa6= 'a'", "node = 'a' \xef\xbb\xbe"}) {
    const auto config = parse_config(text, "stalltrace.toml");
    ASSERT_FALSE(config) << text;
    golden::expect_text(config.error().what);
  }
  const auto config = parse_config("# \xef\xbb\xa7\nnode = '\xef\xbb\xa7'", "stalltrace.toml");
  ASSERT_TRUE(config) << config.error().what;
  EXPECT_EQ(config->node, "\xef\xbb\xa7");
}

TEST(Config, AFileThatWasNamedMustExist) { EXPECT_FALSE(load_config("/nonexistent/stalltrace.toml")); }

}  // namespace
}  // namespace stalltrace::cli
