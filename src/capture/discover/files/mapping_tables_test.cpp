// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/mapping_tables.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace stalltrace::capture {
namespace {

namespace fs = std::filesystem;

TEST(MappingTables, AProcessHasAShareOfTheTime) {
  const fs::path root = fs::path(testing::TempDir()) / ("mapping_tables_" + std::to_string(::getpid()));
  fs::create_directories(root / "7");
  {
    std::ofstream maps(root / "7" / "maps");
    for (uint64_t i = 1; i <= 8'000; ++i) {
      maps << std::hex << i * 0x1000 << "-" << (i + 1) * 0x1000 << std::dec << " r-xp 00000000 fe:00 " << i
           << " /lib/a\n";
    }
  }
  const Procfs procfs(root.string());
  MappingTables tables(procfs);
  EXPECT_EQ(tables.last(7), nullptr);
  const int64_t begun_ns = monotonic_now_ns();
  int64_t last_begun_ns = 0;
  int reads = 0;
  for (; reads < 1000 && tables.again_ns(7) == 0; ++reads) {
    last_begun_ns = monotonic_now_ns();
    const auto table = tables.read(7);
    ASSERT_TRUE(table);
    EXPECT_EQ(tables.last(7), *table);
  }
  EXPECT_GT(reads, 1) << "some at once";
  EXPECT_LT(reads, 1000);
  const int64_t took_ns = monotonic_now_ns() - begun_ns;
  EXPECT_GE(took_ns, MappingTables::kAtOnceNs);
  EXPECT_GT(tables.again_ns(7), last_begun_ns);
  EXPECT_EQ(tables.again_ns(8), 0) << "another process";
  EXPECT_FALSE(tables.read(8)) << "it is gone";
  EXPECT_EQ(tables.last(8), nullptr);
  fs::remove_all(root);
}

}  // namespace
}  // namespace stalltrace::capture
