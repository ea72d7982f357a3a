// SPDX-License-Identifier: Apache-2.0
// On threads of this process, and on memory that no honest process has.
#include "stacks/native/unwinder.h"

#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/clock.h"
#include "base/file.h"
#include "stacks/native/native_frames.h"
#include "stacks/testing/worker.h"

// Outside the anonymous namespace so that their symbols can be found. The barriers keep calls from becoming jumps.
namespace stalltrace::stacks::unwinder_test {
using Syscall = long (*)(long, ...);
using Trampoline = long (*)(long number, long fd, char* byte, long count, Syscall function);

__attribute__((noipa)) long load_batch(int fd, char* byte) {
  const long got = ::syscall(SYS_read, fd, byte, 1);  // sanitizers replace read()
  asm volatile("" ::: "memory");
  return got;
}
__attribute__((noipa)) long through_made_code(Trampoline code, int fd, char* byte) {
  const long got = code(SYS_read, fd, byte, 1, &::syscall);
  asm volatile("" ::: "memory");
  return got;
}
__attribute__((noipa)) void sleep_until(const std::atomic<bool>& stop) {
  while (!stop) {
    ::usleep(20'000);
    asm volatile("" ::: "memory");
  }
}
}  // namespace stalltrace::stacks::unwinder_test

namespace stalltrace::stacks {
namespace {

using testing::HasSubstr;

/// The frames of a thread of this process once it blocks in the call.
NativeStack stack_in(pid_t tid, int64_t call) {
  const Procfs procfs;
  const int64_t until_ns = monotonic_now_ns() + 20 * kNsPerSecond;
  NativeStack stack;
  while (stack.frames.empty() && monotonic_now_ns() < until_ns) {
    NativeStacks reader(procfs, FunctionNameReader::ReadBy::kThisProcess, 10 * kNsPerSecond);
    reader.read(::getpid(), {{.tid = tid, .call = call, .argument = {}, .times = {}}});
    stack = reader.take().at(0);
  }
  return stack;
}

#if defined(__x86_64__)
class Unwinder : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe(ends_.data()), 0); }
  void TearDown() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  void wake() { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }

  std::array<int, 2> ends_{-1, -1};
};

TEST_F(Unwinder, TheCallerOfABlockedFunction) {
  char byte = 0;
  NativeStack stack;
  {
    const Worker worker([&] { unwinder_test::load_batch(ends_[0], &byte); });
    stack = stack_in(worker.tid(), SYS_read);
    wake();
  }
  EXPECT_EQ(stack.problem, "");
  ASSERT_GE(stack.frames.size(), 2U);
  EXPECT_THAT(stack.frames[0].file, HasSubstr("libc"));
  EXPECT_THAT(stack.frames[1].function, HasSubstr("unwinder_test::load_batch("));
  EXPECT_TRUE(stack.frames[1].native);
}

#if !defined(__SANITIZE_THREAD__)
TEST_F(Unwinder, FunctionsOfTheCLibraryThatCallEachOther) {
  std::atomic<bool> stop = false;
  NativeStack stack;
  {
    const Worker worker([&] { unwinder_test::sleep_until(stop); });
    stack = stack_in(worker.tid(), SYS_clock_nanosleep);
    stop = true;
  }
  const auto sleeper = std::ranges::find_if(stack.frames, [](const PythonFrame& frame) {
    return frame.function.find("unwinder_test::sleep_until(") != std::string::npos;
  });
  ASSERT_NE(sleeper, stack.frames.end()) << frames_to_text(stack.frames);
  EXPECT_GE(sleeper - stack.frames.begin(), 2) << "usleep() calls clock_nanosleep()";
  EXPECT_THAT(std::prev(sleeper)->function, HasSubstr("usleep"));
}
#endif

/// Code that this process made, as CPython's trampoline: it calls a function and returns.
class MadeCode {
 public:
  MadeCode() : at_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    constexpr std::array<uint8_t, 14> kCode{0x48, 0x83, 0xec, 0x08,  // sub $8,%rsp
                                            0x4c, 0x89, 0xc0,        // mov %r8,%rax
                                            0xff, 0xd0,              // call *%rax
                                            0x48, 0x83, 0xc4, 0x08,  // add $8,%rsp
                                            0xc3};                   // ret
    std::memcpy(at_, kCode.data(), kCode.size());
    EXPECT_EQ(::mprotect(at_, kBytes, PROT_READ | PROT_EXEC), 0);
  }
  MadeCode(const MadeCode&) = delete;
  MadeCode& operator=(const MadeCode&) = delete;
  ~MadeCode() { ::munmap(at_, kBytes); }

  [[nodiscard]] unwinder_test::Trampoline function() const { return reinterpret_cast<unwinder_test::Trampoline>(at_); }

 private:
  static constexpr size_t kBytes = 4096;
  void* at_;
};

TEST_F(Unwinder, ThroughCodeThatTheProcessMade) {
  const MadeCode made;
  const std::string path = fmt::format("/tmp/perf-{}.map", Procfs().inner_pid(::getpid()));
  ASSERT_FALSE(std::filesystem::exists(path)) << path << ": something profiles this program, or was killed; remove it";
  char byte = 0;
  NativeStack unnamed;
  NativeStack named;
  {
    const Worker worker([&] { unwinder_test::through_made_code(made.function(), ends_[0], &byte); });
    unnamed = stack_in(worker.tid(), SYS_read);
    EXPECT_TRUE(write_file(
        path, fmt::format("{:x} e py::step:/home/u/train.py\n", reinterpret_cast<uint64_t>(made.function()))));
    named = stack_in(worker.tid(), SYS_read);
    std::filesystem::remove(path);
    wake();
  }
  for (const NativeStack* stack : {&unnamed, &named}) {
    ASSERT_GE(stack->frames.size(), 3U) << frames_to_text(stack->frames);
    EXPECT_EQ(stack->frames[1].file, kJitFile);
    EXPECT_THAT(stack->frames[2].function, HasSubstr("unwinder_test::through_made_code("));
  }
  EXPECT_NE(unnamed.frames[1].function, named.frames[1].function);
  EXPECT_EQ(named.frames[1].function, "py::step:/home/u/train.py");
}
#endif

TEST(NativeStacksTest, FramesOfAnotherWaitAreNotRead) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe(ends.data()), 0);
  std::vector<NativeStack> stacks;
  {
    char byte = 0;
    const Worker worker([&] { unwinder_test::load_batch(ends[0], &byte); });
    EXPECT_FALSE(stack_in(worker.tid(), SYS_read).frames.empty()) << "it waits by now";
    const Procfs procfs;
    const auto argument = static_cast<uint64_t>(ends[0]);
    const std::string times = procfs.thread_file(::getpid(), worker.tid(), "schedstat");
    NativeStacks reader(procfs, FunctionNameReader::ReadBy::kThisProcess, 10 * kNsPerSecond);
    reader.read(::getpid(), {{.tid = worker.tid(), .call = SYS_read, .argument = argument, .times = times},
                             {.tid = worker.tid(), .call = SYS_read, .argument = argument + 1, .times = times},
                             {.tid = worker.tid(), .call = SYS_read, .argument = argument, .times = times + "1"}});
    stacks = reader.take();
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
  }
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_EQ(stacks.size(), 3U);
  EXPECT_FALSE(stacks[0].frames.empty());
  for (const NativeStack& stack : {stacks[1], stacks[2]}) {
    EXPECT_TRUE(stack.frames.empty());
    EXPECT_EQ(stack.problem, kItRan);
  }
}

TEST(NativeStacksTest, AThreadInAnotherCallIsNotRead) {
  const Procfs procfs;
  NativeStacks reader(procfs, FunctionNameReader::ReadBy::kThisProcess, kNsPerSecond);
  reader.read(::getpid(), {{.tid = ::gettid(), .call = 12'345, .argument = {}, .times = {}}});
  reader.read(0x3fffffff, {{.tid = 1, .call = {}, .argument = {}, .times = {}},
                           {.tid = 2, .call = {}, .argument = {}, .times = {}}});
  const std::vector<NativeStack> stacks = reader.take();
  ASSERT_EQ(stacks.size(), 3U);
  for (const NativeStack& stack : stacks) {
    EXPECT_TRUE(stack.frames.empty());
    EXPECT_NE(stack.problem, "");
  }
}

/// Memory made of one block of bytes.
class Block final : public Memory {
 public:
  Block(uint64_t address, std::vector<std::byte> bytes) : address_(address), bytes_(std::move(bytes)) {}
  bool read(uint64_t address, std::span<std::byte> into) override {
    if (address < address_ || address - address_ > bytes_.size() ||
        into.size() > bytes_.size() - (address - address_)) {
      return false;
    }
    std::memcpy(into.data(), bytes_.data() + (address - address_), into.size());
    return true;
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  uint64_t address_;
  std::vector<std::byte> bytes_;
};

constexpr uint64_t kElf = 0x10000;
constexpr uint64_t kBlockBytes = 0x4000;

template <typename T>
void put_at(std::vector<std::byte>& bytes, uint64_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

/// An ELF file in memory with one function, 0x1000 to 0x1100, that has pushed rbp.
std::vector<std::byte> small_image() {
  std::vector<std::byte> bytes(kBlockBytes);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = EM_X86_64;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  put_at(bytes, 0, header);
  put_at(bytes, sizeof header, Elf64_Phdr{.p_type = PT_LOAD});
  put_at(bytes, sizeof header + sizeof(Elf64_Phdr), Elf64_Phdr{.p_type = PT_GNU_EH_FRAME, .p_vaddr = 0x2000});
  put_at(bytes, 0x2000, std::array<uint8_t, 4>{1, 0x1b, 3, 0x3b});
  put_at(bytes, 0x2008, uint32_t{1});
  put_at(bytes, 0x200c, int32_t{0x1000 - 0x2000});
  put_at(bytes, 0x2010, int32_t{0x3020 - 0x2000});
  // Common: version 1, "zR", 1, -8, register 16, pointers relative to themselves; rsp+8, the return address below it.
  put_at(bytes, 0x3000, uint32_t{0x14});
  put_at(bytes, 0x3008, std::array<uint8_t, 16>{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0});
  // The function: after 1 byte rsp+16, rbp at -16.
  put_at(bytes, 0x3020, uint32_t{0x14});
  put_at(bytes, 0x3024, uint32_t{0x24});
  put_at(bytes, 0x3028, int32_t{0x1000 - 0x3028});
  put_at(bytes, 0x302c, int32_t{0x100});
  put_at(bytes, 0x3030, std::array<uint8_t, 8>{0, 0x41, 0x0e, 16, 0x86, 2, 0, 0});
  return bytes;
}

#if defined(__x86_64__)
TEST(UnwindTablesTest, RulesBeforeAndAfterAPush) {
  Block block(kElf, small_image());
  BoundedMemory memory(block, {});
  UnwindTables tables(memory);
  const auto first = tables.at(kElf, kElf + 0x1000);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->base, kStackPointer);
  EXPECT_EQ(first->base_offset, 8);
  EXPECT_EQ(first->registers[kBasePointer].kind, UnwindRules::Kind::kSame);
  const auto later = tables.at(kElf, kElf + 0x10ff);
  ASSERT_TRUE(later);
  EXPECT_EQ(later->base_offset, 16);
  EXPECT_EQ(later->registers[kReturnAddress], (UnwindRules::Register{UnwindRules::Kind::kSavedAt, -8}));
  EXPECT_EQ(later->registers[kBasePointer], (UnwindRules::Register{UnwindRules::Kind::kSavedAt, -16}));
  EXPECT_FALSE(tables.at(kElf, kElf + 0x1100)) << "beyond the function";
  EXPECT_FALSE(tables.at(kElf, kElf + 0xfff));
  EXPECT_FALSE(tables.at(0x999000, 0x999000));
}
#endif

#if defined(__x86_64__)
TEST(UnwindTablesTest, TooManyInstructionsEndAStack) {
  Block block(kElf, small_image());
  BoundedMemory memory(block, {});
  UnwindTables tables(memory);
  size_t given = 0;
  for (; given <= UnwindTables::kMostInstructions && tables.at(kElf, kElf + 0x1080); ++given) {
  }
  EXPECT_GT(given, 1000U);
  EXPECT_LT(given, UnwindTables::kMostInstructions);
  tables.begin_stack();
  EXPECT_TRUE(tables.at(kElf, kElf + 0x1080));
}
#endif

TEST(UnwindTablesTest, DamagedTablesAreRefusedAndEnd) {
  std::mt19937 random(7);
  size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    Block block(kElf, small_image());
    for (int i = 0; i < 6; ++i) {
      // Where the tables are, mostly.
      const size_t at = random() % 2 == 0 ? 0x2000 + random() % 0x20 : 0x3000 + random() % 0x40;
      block.bytes()[at] = static_cast<std::byte>(random());
    }
    block.bytes()[random() % 0xc0] = static_cast<std::byte>(random());
    BoundedMemory memory(block, {.most_bytes = 1U << 20, .most_ns = 10 * kNsPerSecond});
    UnwindTables tables(memory);
    refused += tables.at(kElf, kElf + 0x1080) ? 0 : 1;
  }
  EXPECT_GT(refused, 100U);
}

#if defined(__x86_64__)
TEST(UnwindTest, AStackOfRubbishGivesTheInnermostFrameAlone) {
  const std::string maps = "10000-11000 r--p 00000000 fe:01 7 /train\n11000-12000 r-xp 00001000 fe:01 7 /train\n";
  const CodeMap map = CodeMap::parse(maps);
  std::mt19937_64 random(3);
  Block code_block(kElf, small_image());
  std::vector<std::byte> words(4096);
  for (std::byte& byte : words) {
    byte = static_cast<std::byte>(random());
  }
  constexpr uint64_t kStack = 0x50000;
  Block stack_block(kStack, std::move(words));
  BoundedMemory stack(stack_block, {});
  BoundedMemory code(code_block, {});
  UnwindTables tables(code);
  const Unwound unwound = unwind({.sp = kStack, .ip = kElf + 0x1010}, map, stack, code, tables);
  ASSERT_EQ(unwound.frames.size(), 1U);
  EXPECT_FALSE(unwound.whole);
  EXPECT_TRUE(unwind({.sp = kStack, .ip = 0x70}, map, stack, code, tables).frames.empty());
}

TEST(UnwindTest, AReturnAddressThatNoCallPrecedesEndsIt) {
  const CodeMap map = CodeMap::parse("10000-11000 r--p 0 fe:01 7 /t\n11000-12000 r-xp 00001000 fe:01 7 /t\n");
  Block code_block(kElf, small_image());
  code_block.bytes()[0x1020 - 5] = std::byte{0xe8};  // call rel32 before 0x1020
  constexpr uint64_t kStack = 0x50000;
  std::vector<std::byte> words(4096);
  put_at(words, 8, kElf + 0x1020);   // of the innermost frame: rsp+16-8
  put_at(words, 24, kElf + 0x1040);  // of its caller
  Block stack_block(kStack, std::move(words));
  BoundedMemory stack(stack_block, {});
  BoundedMemory code(code_block, {});
  UnwindTables tables(code);
  const Unwound unwound = unwind({.sp = kStack, .ip = kElf + 0x1010}, map, stack, code, tables);
  ASSERT_EQ(unwound.frames.size(), 2U);
  EXPECT_EQ(unwound.frames[1].address, kElf + 0x101f);
}
#endif

}  // namespace
}  // namespace stalltrace::stacks
