// SPDX-License-Identifier: Apache-2.0
#include "autopsy/native/stack_scan.h"

#include <gtest/gtest.h>

#include <array>

#include "autopsy/native/call_names.h"

namespace stalltrace::autopsy {
namespace {

using stacks::StackContent;

constexpr uint64_t kLibc = 0x1000;
constexpr uint64_t kLibrary = 0x2000;
constexpr uint64_t kProgram = 0x3000;
constexpr std::array kRanges{CodeRange{kLibc, kLibc + 0x100, CodeKind::kTransparent, 0},
                             CodeRange{kLibrary, kLibrary + 0x100, CodeKind::kLibrary, 1},
                             CodeRange{kProgram, kProgram + 0x100, CodeKind::kProgram, 2}};

bool every(uint64_t) { return true; }

TEST(ScanStack, EndsAtTheProgramsInnermostFrame) {
  // What lies beyond it in the library is left over from a call that has returned.
  const StackContent stack{kLibc + 8, {7, kLibrary + 0x10, 0, kProgram + 0x20, kLibrary + 0x30}};
  const ScannedStack scanned = scan_stack(stack, kRanges, every);
  ASSERT_EQ(scanned.code.size(), 3);
  EXPECT_EQ(scanned.code[1].address, kLibrary + 0x0f);  // within the call, which may end its function
  EXPECT_EQ(scanned.innermost, CodeKind::kLibrary);
}

TEST(ScanStack, AProgramThatReadsIsInNoLibrary) {
  const StackContent stack{kLibc + 8, {kProgram + 0x20, kLibrary + 0x30}};
  const ScannedStack scanned = scan_stack(stack, kRanges, every);
  EXPECT_EQ(scanned.innermost, CodeKind::kProgram);
  EXPECT_EQ(scanned.code.size(), 2);
}

TEST(ScanStack, AddressesThatNoCallPrecedesAreData) {
  const StackContent stack{kLibc + 8, {kLibrary + 0x10, kLibrary + 0x20}};
  const ScannedStack scanned = scan_stack(stack, kRanges, [](uint64_t address) { return address == kLibrary + 0x20; });
  ASSERT_EQ(scanned.code.size(), 2);
  EXPECT_EQ(scanned.code[1].address, kLibrary + 0x1f);
}

TEST(CallOfFunction, Names) {
  EXPECT_EQ(call_of_function("PMPI_Allreduce")->op, Operation::kAllReduce);
  EXPECT_EQ(call_of_function("PMPI_Allreduce")->name, "MPI_Allreduce");
  EXPECT_EQ(call_of_function("gloo::allreduce(gloo::AllreduceOptions const&)")->op, Operation::kAllReduce);
  EXPECT_FALSE(call_of_function("gloo::transport::tcp::Pair::recv()"));
  ASSERT_TRUE(call_of_function("cudaStreamSynchronize"));
  EXPECT_FALSE(call_of_function("cudaStreamSynchronize")->op);
  EXPECT_FALSE(call_of_function("cudaEventRecord"));  // it only enqueues
  EXPECT_EQ(call_of_function("ncclCommInitRank")->op, Operation::kCommInitRank);
  EXPECT_FALSE(call_of_function("main"));
  EXPECT_EQ(call_of_function("c10d::Reducer::finalize_backward()")->name, "c10d::Reducer::finalize_backward");
  EXPECT_TRUE(call_of_function("c10d::ProcessGroupGloo::AsyncWork::wait(std::chrono::duration<long>)"));
  EXPECT_FALSE(call_of_function("c10d::ProcessGroupGloo::runLoop(int)"));
}

TEST(CallOfPython, OnlyTheFrameworksOwn) {
  const char* const file = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py";
  EXPECT_EQ(call_of_python("all_reduce", file)->op, Operation::kAllReduce);
  EXPECT_FALSE(call_of_python("all_reduce", "/home/u/train.py"));
  EXPECT_FALSE(call_of_python("get_rank", file));
}

}  // namespace
}  // namespace stalltrace::autopsy
