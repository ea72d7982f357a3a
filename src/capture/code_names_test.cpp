// SPDX-License-Identifier: Apache-2.0
#include "capture/code_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/text.h"
#include "capture/call_stacks.h"
#include "model/source.h"

// Not in the anonymous namespace: a symbol to be found.
namespace stalltrace::capture::code_names_test {

__attribute__((noipa)) uint64_t a_place_to_call_from() {
  return reinterpret_cast<uint64_t>(__builtin_return_address(0));
}

volatile int calls;
__attribute__((noipa)) uint64_t a_caller() {
  const uint64_t place = a_place_to_call_from();
  calls = calls + 1;  // no tail call
  return place;
}

}  // namespace stalltrace::capture::code_names_test

namespace stalltrace::capture {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::SizeIs;
using testing::StartsWith;

uint64_t entry_of(uint64_t (*function)()) { return reinterpret_cast<uint64_t>(function); }

TEST(CodeNames, AFunctionAndWhoCalledIt) {
  const std::vector<uint64_t> stack = {entry_of(code_names_test::a_place_to_call_from), code_names_test::a_caller(), 8,
                                       entry_of(code_names_test::a_caller)};
  const std::string text = describe_frames(Procfs(), ::getpid(), stack);
  const auto frames = split(text, '\n');
  ASSERT_THAT(frames, SizeIs(2)) << "8 is in no file: garbage from there on";
  EXPECT_EQ(frames[0], "stalltrace::capture::code_names_test::a_place_to_call_from() (test_capture)");
  EXPECT_THAT(std::string(frames[1]),
              MatchesRegex("stalltrace::capture::code_names_test::a_caller\\(\\)\\+0x[0-9a-f]+ \\(test_capture\\)"));
}

TEST(CodeNames, WhatIsGoneOrNoProgramHasNone) {
  EXPECT_THAT(describe_frames(Procfs("/nowhere"), 1, std::vector<uint64_t>{1}), IsEmpty());
  EXPECT_THAT(describe_frames(Procfs(), ::getpid(), {}), IsEmpty());
  const std::string path = testing::TempDir() + "/no-program";
  std::ofstream(path) << "\x7f"
                         "ELF and then nothing";
  for (const auto& place : functions_at(path, std::vector<uint64_t>{0, 100})) {
    EXPECT_FALSE(place);
  }
  EXPECT_THAT(functions_at("/nowhere", std::vector<uint64_t>{5}), SizeIs(1));
  ::unlink(path.c_str());
}

TEST(CallStacks, EachContentIsOneRow) {
  MemorySource source;
  const Procfs procfs;
  int walked = 0;
  const uint64_t caller = code_names_test::a_caller();
  CallStacks stacks(
      [&](int32_t number) {
        ++walked;
        const uint64_t entry = entry_of(code_names_test::a_place_to_call_from);
        return number == 9   ? std::vector<uint64_t>{}
               : number == 2 ? std::vector<uint64_t>{entry, caller}
                             : std::vector<uint64_t>{entry, 8};
      },
      procfs, source);
  const auto first = stacks.id_of(::getpid(), 1, caller);
  ASSERT_TRUE(first);
  EXPECT_EQ(stacks.id_of(::getpid(), 1, caller), first);
  EXPECT_EQ(walked, 1);
  EXPECT_EQ(stacks.id_of(::getpid(), 2, caller), first) << "another number, the same text";
  EXPECT_NE(stacks.id_of(::getpid(), 1, 8), first) << "called from elsewhere";
  EXPECT_FALSE(stacks.id_of(::getpid(), -17, caller));
  EXPECT_FALSE(stacks.id_of(::getpid(), 9, caller));
  const auto rows = source.stacks();
  ASSERT_TRUE(rows);
  ASSERT_THAT(*rows, SizeIs(2));
  const Stack& row = (*rows)[0].stack_id == *first ? (*rows)[0] : (*rows)[1];
  EXPECT_THAT(row.frames, StartsWith("stalltrace::capture::code_names_test::a_place_to_call_from()"));
  EXPECT_THAT(row.frames, HasSubstr("a_caller()"));
  stacks.on_exit(::getpid());
  EXPECT_EQ(stacks.id_of(::getpid(), 1, caller), first);
  EXPECT_THAT(*source.stacks(), SizeIs(2));
}

TEST(CallStacks, AProcessHasSoManyAndNoMore) {
  MemorySource source;
  const Procfs procfs;
  CallStacks stacks(
      [](int32_t number) {
        return std::vector<uint64_t>{entry_of(code_names_test::a_caller), static_cast<uint64_t>(number) + 1};
      },
      procfs, source);
  for (int32_t number = 0; number < 300; ++number) {
    EXPECT_EQ(stacks.id_of(::getpid(), number, code_names_test::a_caller()).has_value(), number < 256) << number;
  }
}

}  // namespace
}  // namespace stalltrace::capture
