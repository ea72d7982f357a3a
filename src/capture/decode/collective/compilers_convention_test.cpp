// SPDX-License-Identifier: Apache-2.0
// The calling convention of the test machine as its compiler uses it: functions store their registers at the first
// instruction, as a probe sees them, and the kernel side's code reads the arguments from them.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "capture/call_table.h"

static inline int read_memory(void* destination, unsigned long size, unsigned long address) {
  std::memcpy(destination, reinterpret_cast<const void*>(address), size);
  return 0;
}
#define ST_READ_USER(destination, size, address) read_memory(destination, size, address)
#if defined(__aarch64__)
#define __TARGET_ARCH_arm64
#else
#define __TARGET_ARCH_x86
#endif
#include "calling_convention.h"

namespace stalltrace::capture {
namespace {

struct UniqueId {
  std::array<char, ST_UNIQUE_ID_BYTES> bytes;
};

/// The call table's row for the call under way, and what was read at its first instruction.
st_call_spec spec;
st_arguments arguments;
UniqueId id;

extern "C" {
[[gnu::used]] st_registers stalltrace_test_registers;

/// The function stored its registers and jumped here, so the caller's stack is untouched.
[[gnu::used]] void stalltrace_test_read() {
  arguments = {};
  st_read_arguments(&stalltrace_test_registers, &spec, &arguments);
  if (arguments.id_address != 0) {
    std::memcpy(id.bytes.data(), reinterpret_cast<const void*>(arguments.id_address), id.bytes.size());
  }
}

void stalltrace_test_init(void**, int, UniqueId, int, void*);
void stalltrace_test_scatterv(const void*, const int*, const int*, void*, void*, int, void*, int, void*);
void stalltrace_test_sendrecv(const void*, int, void*, int, int, void*, int, void*, int, int, void*, void*);
}

// One function under three names, which differ only in how the compiler calls them.
#if defined(__aarch64__)
asm(R"(
  .pushsection .text
  .type stalltrace_test_init, %function
stalltrace_test_init:
stalltrace_test_scatterv:
stalltrace_test_sendrecv:
  adrp x9, stalltrace_test_registers
  add x9, x9, :lo12:stalltrace_test_registers
  stp x0, x1, [x9]
  stp x2, x3, [x9, 16]
  stp x4, x5, [x9, 32]
  stp x6, x7, [x9, 48]
  mov x10, sp
  str x10, [x9, 248]
  b stalltrace_test_read
  .size stalltrace_test_init, . - stalltrace_test_init
  .popsection
)");
static_assert(offsetof(st_registers, sp) == 248);
#elif defined(__x86_64__)
asm(R"(
  .pushsection .text
  .type stalltrace_test_init, @function
stalltrace_test_init:
stalltrace_test_scatterv:
stalltrace_test_sendrecv:
  lea stalltrace_test_registers(%rip), %rax
  mov %r9, 64(%rax)
  mov %r8, 72(%rax)
  mov %rcx, 88(%rax)
  mov %rdx, 96(%rax)
  mov %rsi, 104(%rax)
  mov %rdi, 112(%rax)
  mov %rsp, 152(%rax)
  jmp stalltrace_test_read
  .size stalltrace_test_init, . - stalltrace_test_init
  .popsection
)");
static_assert(offsetof(st_registers, r9) == 64 && offsetof(st_registers, di) == 112 &&
              offsetof(st_registers, sp) == 152);
#endif

class CompilersConvention : public ::testing::Test {
 protected:
  static void next_is(std::string_view symbol) {
    for (const Call& call : call_table()) {
      if (call.symbol == symbol) {
        spec = call.spec;
        return;
      }
    }
    FAIL() << symbol << " is no row";
  }
  static uint64_t argument(uint8_t slot) { return arguments.slot[slot]; }
  static uint32_t int_argument(uint8_t slot) { return static_cast<uint32_t>(arguments.slot[slot]); }
  static void* pointer(uint64_t value) { return reinterpret_cast<void*>(value); }
};

TEST_F(CompilersConvention, AnIdByValueAndTheRankBehindIt) {
  next_is("ncclCommInitRankConfig");
  UniqueId passed;
  for (size_t i = 0; i < passed.bytes.size(); ++i) {
    passed.bytes[i] = static_cast<char>(i + 1);
  }
  void* comm = nullptr;
  stalltrace_test_init(&comm, 8, passed, 5, nullptr);
  EXPECT_EQ(argument(spec.new_comm), reinterpret_cast<uint64_t>(&comm));
  EXPECT_EQ(int_argument(spec.nranks), 8U);
  EXPECT_EQ(int_argument(spec.rank), 5U);
  EXPECT_EQ(id.bytes, passed.bytes);
}

TEST_F(CompilersConvention, NineArguments) {
  next_is("MPI_Scatterv");
  stalltrace_test_scatterv(pointer(0x51), nullptr, nullptr, pointer(0x54), pointer(0x55), 0x56, pointer(0x57), 0x58,
                           pointer(0x59));
  EXPECT_EQ(int_argument(spec.count), 0x56U);
  EXPECT_EQ(argument(spec.mpi_datatype), 0x57U);
  EXPECT_EQ(int_argument(spec.root), 0x58U);
  EXPECT_EQ(argument(spec.comm), 0x59U);
}

TEST_F(CompilersConvention, TwelveArguments) {
  next_is("MPI_Sendrecv");
  stalltrace_test_sendrecv(pointer(0x51), 0x52, pointer(0x53), 0x54, 0x55, pointer(0x56), 0x57, pointer(0x58), 0x59,
                           0x5a, pointer(0x5b), pointer(0x5c));
  EXPECT_EQ(int_argument(spec.count), 0x52U);
  EXPECT_EQ(argument(spec.mpi_datatype), 0x53U);
  EXPECT_EQ(int_argument(spec.peer), 0x54U);
  EXPECT_EQ(argument(spec.comm), 0x5bU);
}

}  // namespace
}  // namespace stalltrace::capture
