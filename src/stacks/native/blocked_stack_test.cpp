// SPDX-License-Identifier: Apache-2.0
#include "stacks/native/blocked_stack.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "base/clock.h"
#include "stacks/testing/worker.h"

namespace stalltrace::stacks {
namespace {

TEST(BlockedStack, OfAThreadThatReadsAPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Procfs procfs;
  {
    const Worker worker([&] {
      char byte = 0;
      EXPECT_EQ(::read(ends[0], &byte, 1), 1);
    });
    auto memory = ProcessMemory::open(procfs, ::getpid());
    ASSERT_TRUE(memory);
    std::optional<StackContent> content;
    const int64_t until_ns = monotonic_now_ns() + 5 * kNsPerSecond;
    while (!content && monotonic_now_ns() < until_ns) {
      content = blocked_stack(procfs, *memory, ::getpid(), worker.tid());
    }
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
    ASSERT_TRUE(content);
    EXPECT_NE(content->ip, 0);
    EXPECT_GT(content->words.size(), 8);
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

#if defined(__x86_64__)
TEST(IsCall, TheFormsOfX86) {
  const auto ends = [](std::array<uint8_t, 8> bytes) { return is_call(bytes); };
  EXPECT_TRUE(ends({0, 0, 0, 0xe8, 1, 2, 3, 4}));      // call rel32
  EXPECT_TRUE(ends({0, 0, 0, 0, 0, 0, 0xff, 0xd0}));   // call *%rax
  EXPECT_TRUE(ends({0, 0, 0xff, 0x15, 1, 2, 3, 4}));   // call *disp32(%rip)
  EXPECT_TRUE(ends({0, 0, 0, 0, 0, 0xff, 0x50, 8}));   // call *8(%rax)
  EXPECT_FALSE(ends({0, 0, 0, 0, 0, 0, 0xff, 0xe0}));  // jmp *%rax
  EXPECT_FALSE(ends({0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90}));
}
#endif

TEST(ParseRegisters, OfBlockedAndStoppedThreads) {
  const auto blocked = parse_registers("202 0x7f00 0x80 0x0 0x0 0x0 0xffffffff 0x7ffd10 0x7f1234");
  ASSERT_TRUE(blocked);
  EXPECT_EQ(blocked->sp, 0x7ffd10);
  EXPECT_EQ(blocked->ip, 0x7f1234);
  EXPECT_TRUE(parse_registers("-1 0x7ffd10 0x7f1234"));
  EXPECT_FALSE(parse_registers("running"));
  EXPECT_FALSE(parse_registers("0 0x0 0x0"));
  EXPECT_FALSE(parse_registers(""));
}

}  // namespace
}  // namespace stalltrace::stacks
