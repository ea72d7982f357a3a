// SPDX-License-Identifier: Apache-2.0
#include "import/word_search.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace stalltrace::import {
namespace {

const std::vector<std::string_view> kWords{"abababa", "aabbaabb", "bbbbbbbbbb", "\xff\x80 a a a"};

TEST(WordSearch, FindsAWordAnywhere) {
  const WordSearch search(kWords);
  for (const std::string_view word : kWords) {
    for (size_t before = 0; before < 20; ++before) {
      for (const size_t behind : {size_t{0}, size_t{1}, size_t{9}}) {
        const std::string text = std::string(before, 'x') + std::string(word) + std::string(behind, 'a');
        EXPECT_TRUE(search.any_in(text)) << text;
      }
    }
    EXPECT_FALSE(search.any_in(word.substr(1)));
    EXPECT_FALSE(search.any_in(word.substr(0, word.size() - 1)));
  }
  EXPECT_FALSE(search.any_in(""));
  EXPECT_FALSE(search.any_in("ab"));
}

TEST(WordSearch, SkipsNone) {
  const WordSearch search(kWords);
  std::mt19937 chance(5);
  int found = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (size_t i = chance() % 40; i > 0; --i) {
      text += "ab"[chance() % 2];
    }
    bool expected = false;
    for (const std::string_view word : kWords) {
      expected = expected || text.find(word) != std::string::npos;
    }
    ASSERT_EQ(search.any_in(text), expected) << text;
    found += expected ? 1 : 0;
  }
  EXPECT_GT(found, 1000);
  EXPECT_LT(found, 19'000);
}

}  // namespace
}  // namespace stalltrace::import
