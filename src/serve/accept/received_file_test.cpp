// SPDX-License-Identifier: Apache-2.0
#include "serve/accept/received_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/testing/compressed_zeros.h"
#include "store/testing/test_support.h"

namespace stalltrace::serve {
namespace {

TEST(ReceivedFile, AFewBytesForALargeFileAreTakenInTurns) {
  const store::TemporaryFolder folder;
  const auto file = store::must(ReceivedFile::create(folder / "file", 64 << 20));
  ASSERT_TRUE(file->announce(8 << 20));
  EXPECT_FALSE(file->announce(9 << 20));
  auto more = file->add(compressed_zeros(folder, 8 << 20));
  ASSERT_TRUE(more && *more);
  EXPECT_LT(file->size_bytes(), 2 << 20);
  while (more && *more) {
    more = file->add("");
  }
  EXPECT_TRUE(more && file->finish());
}

TEST(ReceivedFile, TakesNoMoreThanItsLimit) {
  const store::TemporaryFolder folder;
  const std::string compressed = compressed_zeros(folder, 1 << 20);
  const auto taken = [&](const std::string& name, int64_t most, std::string_view bytes) {
    const auto file = store::must(ReceivedFile::create(folder / name, most));
    auto more = file->add(bytes);
    while (more && *more) {
      more = file->add("");
    }
    return more && file->finish();
  };
  EXPECT_TRUE(taken("whole", 1 << 20, compressed));
  EXPECT_EQ(store::bytes_of(folder / "whole").size(), size_t{1} << 20);
  EXPECT_FALSE(taken("limit", (1 << 20) - 1, compressed));
  EXPECT_FALSE(taken("cut", 1 << 20, std::string_view(compressed).substr(0, compressed.size() - 1)));
  EXPECT_FALSE(taken("more", 1 << 20, compressed + "x"));
  EXPECT_FALSE(taken("other", 1 << 20, "\x16\x03\x01"));
  EXPECT_FALSE(ReceivedFile::create(folder / "whole", 1));
}

}  // namespace
}  // namespace stalltrace::serve
