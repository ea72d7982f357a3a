// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/code_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/text.h"
#include "capture/decode/call_stacks.h"
#include "model/memory_source.h"

// Outside the anonymous namespace so that their symbols can be found.
namespace stalltrace::capture::code_names_test {

__attribute__((noipa)) uint64_t a_function_to_call_from() {
  return reinterpret_cast<uint64_t>(__builtin_return_address(0));
}

volatile int calls;
__attribute__((noipa)) uint64_t a_caller() {
  const uint64_t call_site = a_function_to_call_from();
  calls = calls + 1;  // prevents a tail call
  return call_site;
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
uint64_t function_entry() { return entry_of(code_names_test::a_function_to_call_from); }

TEST(CodeNames, AFunctionAndWhoCalledIt) {
  const Procfs procfs;
  CodeNames names(procfs);
  const std::vector<uint64_t> stack = {function_entry(), code_names_test::a_caller(), 8, function_entry()};
  const std::string text = names.describe(::getpid(), stack);
  EXPECT_EQ(names.describe(::getpid(), stack), text) << "from memory";
  const auto frames = split(text, '\n');
  ASSERT_THAT(frames, SizeIs(2)) << "8 is in no file: garbage from there on";
  EXPECT_EQ(frames[0], "stalltrace::capture::code_names_test::a_function_to_call_from() (test_capture)");
  EXPECT_THAT(std::string(frames[1]),
              MatchesRegex("stalltrace::capture::code_names_test::a_caller\\(\\)\\+0x[0-9a-f]+ \\(test_capture\\)"));
}

TEST(CodeNames, MappingsAreReadOnceForManyStacks) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(testing::TempDir()) / "code_names_procfs";
  fs::create_directories(root / "7");
  const std::string first = "1000-2000 r-xp 00000000 00:01 11 /lib/first.so\n";
  const std::string second = "5000-6000 r-xp 00000000 00:01 12 /lib/second.so\n";
  const auto map = [&](const std::string& text) { std::ofstream(root / "7" / "maps") << text; };
  const Procfs procfs(root.string());
  CodeNames names(procfs);
  const auto describe = [&](uint64_t address) { return names.describe(7, std::vector{address}); };
  map(first);
  EXPECT_EQ(describe(0x1010), "+0x10 (first.so)");
  map(second);
  EXPECT_EQ(describe(0x1010), "+0x10 (first.so)") << "not read again";
  EXPECT_EQ(describe(0x5010), "") << "so soon neither for an address that may be none";
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  EXPECT_EQ(describe(0x5010), "+0x10 (second.so)") << "loaded since";
  EXPECT_EQ(describe(0x1010), "");
  map(first);
  names.forget(7);
  EXPECT_EQ(describe(0x1010), "+0x10 (first.so)") << "another process of that number";
  fs::remove_all(root);
}

TEST(CodeNames, WhatIsGoneHasNone) {
  const Procfs nowhere("/nowhere");
  EXPECT_THAT(CodeNames(nowhere).describe(1, std::vector<uint64_t>{1}), IsEmpty());
  const Procfs procfs;
  EXPECT_THAT(CodeNames(procfs).describe(::getpid(), {}), IsEmpty());
}

st_call_stack stack_of(uint64_t call_site, std::vector<uint64_t> addresses, uint64_t return_address) {
  st_call_stack record{};
  record.header.tgid = static_cast<uint32_t>(::getpid());
  record.call_site = call_site;
  record.return_address = return_address;
  record.frames = static_cast<uint32_t>(addresses.size());
  std::ranges::copy(addresses, record.addresses);
  return record;
}

TEST(CallStacks, EachContentIsOneRow) {
  MemorySource source;
  const Procfs procfs;
  UserShares shares;
  CallStacks stacks(procfs, shares, source);
  const uint64_t caller = code_names_test::a_caller();
  stacks.note(stack_of(1, {function_entry(), 8}, caller));
  stacks.note(stack_of(2, {function_entry(), caller}, caller));
  stacks.note(stack_of(3, {function_entry(), 8}, 8));
  stacks.note(stack_of(4, {}, caller));
  const int64_t first = stacks.id_of(::getpid(), 1);
  EXPECT_GT(first, 0);
  EXPECT_EQ(stacks.id_of(::getpid(), 2), first) << "another address, the same text";
  EXPECT_NE(stacks.id_of(::getpid(), 3), first) << "called from elsewhere";
  EXPECT_EQ(stacks.id_of(::getpid(), 4), 0);
  EXPECT_EQ(stacks.id_of(::getpid(), 5), 0) << "never noted";
  const auto rows = source.stacks();
  ASSERT_TRUE(rows);
  ASSERT_THAT(*rows, SizeIs(2));
  const Stack& row = (*rows)[0].stack_id == first ? (*rows)[0] : (*rows)[1];
  EXPECT_THAT(row.frames, StartsWith("stalltrace::capture::code_names_test::a_function_to_call_from()"));
  EXPECT_THAT(row.frames, HasSubstr("a_caller()"));
  stacks.on_exit(::getpid());
  EXPECT_EQ(stacks.id_of(::getpid(), 1), 0);
}

TEST(CallStacks, AProcessHasSoManyAndNoMore) {
  MemorySource source;
  const Procfs procfs;
  UserShares shares;
  CallStacks stacks(procfs, shares, source);
  for (uint64_t call_site = 1; call_site <= 300; ++call_site) {
    stacks.note(stack_of(call_site, {function_entry()}, code_names_test::a_caller()));
    EXPECT_EQ(stacks.id_of(::getpid(), call_site) != 0, call_site <= 256) << call_site;
  }
  ASSERT_EQ(shares.losses(1).size(), 1U);
  EXPECT_EQ(shares.losses(1)[0].count, 44);
  st_call_stack lying = stack_of(1, {function_entry()}, 8);
  lying.frames = UINT32_MAX;
  lying.header.tgid = 1;
  stacks.note(lying);
}

}  // namespace
}  // namespace stalltrace::capture
