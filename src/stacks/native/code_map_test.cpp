// SPDX-License-Identifier: Apache-2.0
#include "stacks/native/code_map.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace stalltrace::stacks {
namespace {

constexpr std::string_view kMaps =
    "1000-2000 r--p 00000000 fe:01 200                /usr/bin/train\n"
    "2000-3000 r-xp 00001000 fe:01 200                /usr/bin/train\n"
    "3000-4000 rw-p 00002000 fe:01 200                /usr/bin/train\n"
    "5000-6000 rwxp 00000000 00:00 0 \n"
    "7000-8000 r--p 00000000 fe:01 201                /lib/a.so\n"
    "8000-9000 r-xp 00001000 fe:01 202                /lib/b.so\n"
    "a000-9000 r-xp 00001000 fe:01 202                /lib/backwards.so\n"
    "rubbish\n"
    "f000-f800 r-xp 00000000 00:00 0                  [vdso]\n";

TEST(CodeMapTest, FilesAnonymousMemoryAndTheKernels) {
  const CodeMap map = CodeMap::parse(kMaps);
  const CodeRegion* program = map.at(0x2fff);
  ASSERT_NE(program, nullptr);
  EXPECT_EQ(program->elf, 0x1000U);
  EXPECT_EQ(program->offset_of(0x2010), 0x1010U);
  EXPECT_FALSE(program->is_anonymous());
  ASSERT_NE(map.at(0x5000), nullptr);
  EXPECT_TRUE(map.at(0x5000)->is_anonymous());
  ASSERT_NE(map.at(0x8000), nullptr);
  EXPECT_EQ(map.at(0x8000)->elf, 0U) << "its beginning is not mapped";
  ASSERT_NE(map.at(0xf010), nullptr);
  EXPECT_EQ(map.at(0xf010)->elf, 0xf000U);
  for (const uint64_t address : {0x0U, 0x1000U, 0x3000U, 0x4fffU, 0x6000U, 0x9000U, 0xf800U}) {
    EXPECT_EQ(map.at(address), nullptr) << address;
  }
}

TEST(CodeMapTest, OfThisProgram) {
  const auto map = CodeMap::read(Procfs(), ::getpid());
  ASSERT_TRUE(map);
  const CodeRegion* region = map->at(reinterpret_cast<uint64_t>(&::getpid));
  ASSERT_NE(region, nullptr);
  EXPECT_NE(region->elf, 0U);
}

}  // namespace
}  // namespace stalltrace::stacks
