// SPDX-License-Identifier: Apache-2.0
// Both calling conventions over synthetic registers: an independent model of the ABI lays out a call for every row of
// the call table from the function's C prototype, and each slot of the row must find its argument.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "capture/call_table.h"

static inline int read_memory(void* destination, unsigned long size, unsigned long address) {
  std::memcpy(destination, reinterpret_cast<const void*>(address), size);
  return 0;
}
#define ST_READ_USER(destination, size, address) read_memory(destination, size, address)
#include "calling_convention.h"

namespace stalltrace::capture {
namespace {

struct Prototype {
  std::string_view symbol;
  std::vector<std::string_view> parameters;  // "id_value" is an ncclUniqueId by value
};

const std::vector<std::string_view> kReduceLike{"send", "recv", "count", "datatype", "reduce_op", "comm", "stream"};
const std::vector<std::string_view> kGatherLike{"send", "recv", "count", "datatype", "comm", "stream"};
const std::vector<std::string_view> kRootedLike{"send", "recv", "count", "datatype", "root", "comm", "stream"};
const std::vector<std::string_view> kPeerLike{"buffer", "count", "datatype", "peer", "comm", "stream"};
const std::vector<std::string_view> kMpiSend{"buffer", "count", "mpi_datatype", "peer", "tag", "comm"};
const std::vector<std::string_view> kMpiGather{"send",      "count",         "mpi_datatype", "recv",
                                               "recvcount", "recv_datatype", "comm"};
const std::vector<std::string_view> kMpiRootedGather{"send",      "count",         "mpi_datatype", "recv",
                                                     "recvcount", "recv_datatype", "root",         "comm"};
const std::vector<std::string_view> kMpiScatter{"send",  "sendcount",    "send_datatype", "recv",
                                                "count", "mpi_datatype", "root",          "comm"};

/// The asynchronous form of a call: its request comes last.
std::vector<std::string_view> begin(std::vector<std::string_view> parameters) {
  parameters.emplace_back("request");
  return parameters;
}

const std::vector<std::string_view> kRecordLike{"event", "stream"};
const std::vector<std::string_view> kRecordWithFlags{"event", "stream", "flags"};
const std::vector<std::string_view> kWaitLike{"stream", "event", "flags"};
const std::vector<std::string_view> kBeginCaptureLike{"stream", "mode"};
const std::vector<std::string_view> kBeginCaptureToGraphLike{"stream", "graph",  "dependencies",
                                                             "edges",  "number", "mode"};
const std::vector<std::string_view> kEndCaptureLike{"stream", "graph"};
const std::vector<std::string_view> kGraphLaunchLike{"executable", "stream"};

/// From nccl.h 2.30 (rccl.h for ncclAllToAll), mpi.h 3.1, cuda_runtime_api.h, cuda.h and hip_runtime_api.h.
const std::vector<Prototype> kPrototypes{
    {"ncclAllReduce", kReduceLike},
    {"ncclReduceScatter", kReduceLike},
    {"ncclReduce", {"send", "recv", "count", "datatype", "reduce_op", "root", "comm", "stream"}},
    {"ncclAllGather", kGatherLike},
    {"ncclBroadcast", kRootedLike},
    {"ncclBcast", {"buffer", "count", "datatype", "root", "comm", "stream"}},
    {"ncclAlltoAll", kGatherLike},
    {"ncclAllToAll", kGatherLike},
    {"ncclGather", kRootedLike},
    {"ncclScatter", kRootedLike},
    {"ncclSend", kPeerLike},
    {"ncclRecv", kPeerLike},
    {"ncclGroupStart", {}},
    {"ncclGroupEnd", {}},
    {"ncclCommInitRank", {"new_comm", "nranks", "id_value", "rank"}},
    {"ncclCommInitRankConfig", {"new_comm", "nranks", "id_value", "rank", "config"}},
    {"ncclCommInitRankScalable", {"new_comm", "nranks", "rank", "ids", "id", "config"}},
    {"ncclCommInitAll", {"new_comm", "nranks", "devices"}},
    {"ncclCommSplit", {"comm", "color", "key", "new_comm", "config"}},
    {"ncclCommShrink", {"comm", "excluded", "excluded_count", "new_comm", "config", "flags"}},
    {"ncclCommGrow", {"comm", "nranks", "id", "rank", "new_comm", "config"}},
    {"ncclCommFinalize", {"comm"}},
    {"ncclCommDestroy", {"comm"}},
    {"ncclCommAbort", {"comm"}},
    {"ncclCommRevoke", {"comm", "flags"}},
    {"ncclCommUserRank", {"comm", "out"}},
    {"ncclCommCount", {"comm", "out"}},
    {"MPI_Allreduce", {"send", "recv", "count", "mpi_datatype", "op", "comm"}},
    {"MPI_Reduce", {"send", "recv", "count", "mpi_datatype", "op", "root", "comm"}},
    {"MPI_Bcast", {"buffer", "count", "mpi_datatype", "root", "comm"}},
    {"MPI_Allgather", kMpiGather},
    {"MPI_Allgatherv", {"send", "count", "mpi_datatype", "recv", "counts", "displs", "recv_datatype", "comm"}},
    {"MPI_Gather", kMpiRootedGather},
    {"MPI_Gatherv", {"send", "count", "mpi_datatype", "recv", "counts", "displs", "recv_datatype", "root", "comm"}},
    {"MPI_Scatter", kMpiScatter},
    {"MPI_Scatterv", {"send", "counts", "displs", "send_datatype", "recv", "count", "mpi_datatype", "root", "comm"}},
    {"MPI_Alltoall", kMpiGather},
    {"MPI_Alltoallv",
     {"send", "counts", "displs", "send_datatype", "recv", "counts", "displs", "recv_datatype", "comm"}},
    {"MPI_Reduce_scatter", {"send", "recv", "counts", "elements", "op", "comm"}},
    {"MPI_Reduce_scatter_block", {"send", "recv", "count", "mpi_datatype", "op", "comm"}},
    {"MPI_Barrier", {"comm"}},
    {"MPI_Send", kMpiSend},
    {"MPI_Ssend", kMpiSend},
    {"MPI_Rsend", kMpiSend},
    {"MPI_Bsend", kMpiSend},
    {"MPI_Recv", {"buffer", "count", "mpi_datatype", "peer", "tag", "comm", "status"}},
    {"MPI_Sendrecv",
     {"buffer", "count", "mpi_datatype", "peer", "tag", "recv", "recvcount", "recv_datatype", "source", "recvtag",
      "comm", "status"}},
    {"MPI_Iallreduce", begin({"send", "recv", "count", "mpi_datatype", "op", "comm"})},
    {"MPI_Ireduce", begin({"send", "recv", "count", "mpi_datatype", "op", "root", "comm"})},
    {"MPI_Ibcast", begin({"buffer", "count", "mpi_datatype", "root", "comm"})},
    {"MPI_Iallgather", begin(kMpiGather)},
    {"MPI_Igather", begin(kMpiRootedGather)},
    {"MPI_Iscatter", begin(kMpiScatter)},
    {"MPI_Ialltoall", begin(kMpiGather)},
    {"MPI_Ireduce_scatter_block", begin({"send", "recv", "count", "mpi_datatype", "op", "comm"})},
    {"MPI_Ibarrier", begin({"comm"})},
    {"MPI_Isend", begin(kMpiSend)},
    {"MPI_Issend", begin(kMpiSend)},
    {"MPI_Irecv", begin(kMpiSend)},
    {"MPI_Wait", {"request", "status"}},
    {"MPI_Waitall", {"count", "request", "statuses"}},
    {"MPI_Waitany", {"count", "request", "out", "status"}},
    {"MPI_Waitsome", {"count", "request", "done", "indices", "statuses"}},
    {"MPI_Test", {"request", "done", "status"}},
    {"MPI_Testall", {"count", "request", "done", "statuses"}},
    {"MPI_Testany", {"count", "request", "out", "done", "status"}},
    {"MPI_Testsome", {"count", "request", "done", "indices", "statuses"}},
    {"MPI_Comm_rank", {"comm", "out"}},
    {"MPI_Comm_size", {"comm", "out"}},
    {"MPI_Comm_split", {"comm", "color", "key", "new_comm"}},
    {"MPI_Comm_dup", {"comm", "new_comm"}},
    {"MPI_Init", {"argc", "argv"}},
    {"MPI_Init_thread", {"argc", "argv", "required", "provided"}},
    {"MPI_Finalize", {}},
    {"cudaStreamSynchronize", {"stream"}},
    {"cudaStreamSynchronize_ptsz", {"stream"}},
    {"cudaDeviceSynchronize", {}},
    {"cudaEventSynchronize", {"event"}},
    {"cudaEventRecord", kRecordLike},
    {"cudaEventRecord_ptsz", kRecordLike},
    {"cudaEventRecordWithFlags", kRecordWithFlags},
    {"cudaEventRecordWithFlags_ptsz", kRecordWithFlags},
    {"cudaStreamWaitEvent", kWaitLike},
    {"cudaStreamWaitEvent_ptsz", kWaitLike},
    {"cudaStreamBeginCapture", kBeginCaptureLike},
    {"cudaStreamBeginCapture_ptsz", kBeginCaptureLike},
    {"cudaStreamBeginCaptureToGraph", kBeginCaptureToGraphLike},
    {"cudaStreamBeginCaptureToGraph_ptsz", kBeginCaptureToGraphLike},
    {"cudaStreamEndCapture", kEndCaptureLike},
    {"cudaStreamEndCapture_ptsz", kEndCaptureLike},
    {"cudaGraphLaunch", kGraphLaunchLike},
    {"cudaGraphLaunch_ptsz", kGraphLaunchLike},
    {"cuStreamSynchronize", {"stream"}},
    {"cuStreamSynchronize_ptsz", {"stream"}},
    {"cuCtxSynchronize", {}},
    {"cuEventSynchronize", {"event"}},
    {"cuEventRecord", kRecordLike},
    {"cuEventRecord_ptsz", kRecordLike},
    {"cuEventRecordWithFlags", kRecordWithFlags},
    {"cuEventRecordWithFlags_ptsz", kRecordWithFlags},
    {"cuStreamWaitEvent", kWaitLike},
    {"cuStreamWaitEvent_ptsz", kWaitLike},
    {"cuStreamBeginCapture_v2", kBeginCaptureLike},
    {"cuStreamBeginCapture_v2_ptsz", kBeginCaptureLike},
    {"cuStreamBeginCapture", kBeginCaptureLike},
    {"cuStreamBeginCapture_ptsz", kBeginCaptureLike},
    {"cuStreamBeginCaptureToGraph", kBeginCaptureToGraphLike},
    {"cuStreamBeginCaptureToGraph_ptsz", kBeginCaptureToGraphLike},
    {"cuStreamEndCapture", kEndCaptureLike},
    {"cuStreamEndCapture_ptsz", kEndCaptureLike},
    {"cuGraphLaunch", kGraphLaunchLike},
    {"cuGraphLaunch_ptsz", kGraphLaunchLike},
    {"hipStreamSynchronize", {"stream"}},
    {"hipStreamSynchronize_spt", {"stream"}},
    {"hipDeviceSynchronize", {}},
    {"hipEventSynchronize", {"event"}},
    {"hipEventRecord", kRecordLike},
    {"hipEventRecord_spt", kRecordLike},
    {"hipStreamWaitEvent", kWaitLike},
    {"hipStreamWaitEvent_spt", kWaitLike},
    {"hipStreamBeginCapture", kBeginCaptureLike},
    {"hipStreamBeginCapture_spt", kBeginCaptureLike},
    {"hipStreamBeginCaptureToGraph", kBeginCaptureToGraphLike},
    {"hipStreamEndCapture", kEndCaptureLike},
    {"hipStreamEndCapture_spt", kEndCaptureLike},
    {"hipGraphLaunch", kGraphLaunchLike},
    {"hipGraphLaunch_spt", kGraphLaunchLike},
};

constexpr uint64_t kFirstValue = 0x1000;
constexpr uint64_t kGarbage = 0xdead'dead'dead'deadULL;

/// The value the caller passes for the parameter at `index`.
uint64_t value_of(size_t index) { return kFirstValue + index; }

/// A caller's stack at the callee's first instruction, from the stack pointer on.
using Stack = std::array<uint64_t, 32>;

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

struct X86Call {
  Stack stack;
  st_registers_x86_64 registers;

  /// System V: integers in rdi, rsi, rdx, rcx, r8, r9, then the stack above the return address; a 128-byte struct
  /// always on the stack, in the order of the parameters.
  explicit X86Call(const Prototype& prototype) {
    stack.fill(kGarbage);
    std::memset(&registers, 0xdd, sizeof registers);
    registers.sp = address_of(stack.data());
    const std::array<__u64*, 6> integers{&registers.di, &registers.si, &registers.dx,
                                         &registers.cx, &registers.r8, &registers.r9};
    size_t used = 0;
    size_t top = 1;  // above the return address
    for (size_t i = 0; i < prototype.parameters.size(); ++i) {
      if (prototype.parameters[i] == "id_value") {
        id_address = address_of(&stack[top]);
        top += ST_UNIQUE_ID_BYTES / sizeof(uint64_t);
      } else if (used < integers.size()) {
        *integers[used++] = value_of(i);
      } else {
        stack[top++] = value_of(i);
      }
    }
  }
  X86Call(const X86Call&) = delete;

  uint64_t id_address = 0;
};

struct Arm64Call {
  std::array<uint64_t, ST_UNIQUE_ID_BYTES / sizeof(uint64_t)> id_copy{};
  st_registers_arm64 registers;

  Stack stack;

  /// AAPCS64: x0 to x7, then the stack; the struct by a pointer to a copy.
  explicit Arm64Call(const Prototype& prototype) {
    constexpr size_t kRegisters = 8;
    stack.fill(kGarbage);
    std::memset(&registers, 0xdd, sizeof registers);
    registers.sp = address_of(stack.data());
    for (size_t i = 0; i < prototype.parameters.size(); ++i) {
      const uint64_t value = prototype.parameters[i] == "id_value" ? address_of(id_copy.data()) : value_of(i);
      if (i < kRegisters) {
        registers.regs[i] = value;
      } else {
        stack[i - kRegisters] = value;
      }
    }
  }
  Arm64Call(const Arm64Call&) = delete;
};

const Call& row_of(std::string_view symbol) {
  for (const Call& call : call_table()) {
    if (call.symbol == symbol) {
      return call;
    }
  }
  throw std::out_of_range(std::string(symbol));
}

const Prototype& prototype_of(std::string_view symbol) {
  for (const Prototype& prototype : kPrototypes) {
    if (prototype.symbol == symbol) {
      return prototype;
    }
  }
  throw std::out_of_range(std::string(symbol));
}

/// The named argument slots of a row.
std::vector<std::pair<std::string_view, uint8_t>> slots_of(const st_call_spec& spec) {
  return {{"count", spec.count},
          {"datatype", spec.datatype},
          {"reduce_op", spec.reduce_op},
          {"root", spec.root},
          {"peer", spec.peer},
          {"comm", spec.comm},
          {"stream", spec.stream},
          {"event", spec.event},
          {"new_comm", spec.new_comm},
          {"out", spec.out},
          {"nranks", spec.nranks},
          {"rank", spec.rank},
          {"color", spec.color},
          {"key", spec.key},
          {"id", spec.id},
          {"request", spec.request},
          {"mpi_datatype", spec.mpi_datatype},
          {"done", spec.done},
          {"indices", spec.indices}};
}

/// Each parameter that a row can hold must be found there by its value.
void expect_arguments(const Prototype& prototype, const st_call_spec& spec, const st_arguments& arguments) {
  for (const auto& [name, slot] : slots_of(spec)) {
    const auto parameter = std::find(prototype.parameters.begin(), prototype.parameters.end(), name);
    if (parameter == prototype.parameters.end()) {
      EXPECT_EQ(slot, 0) << prototype.symbol << " has no parameter " << name;
      continue;
    }
    ASSERT_NE(slot, 0) << prototype.symbol << " does not record " << name;
    EXPECT_EQ(arguments.slot[slot], value_of(static_cast<size_t>(parameter - prototype.parameters.begin())))
        << prototype.symbol << ' ' << name;
  }
}

TEST(CallingConvention, EveryRowHasAPrototypeAndTheReverse) {
  size_t of_c = 0;
  for (const Call& call : call_table()) {
    if (!call.spec.entry_only) {  // C++: at most the first argument is of interest
      ++of_c;
      EXPECT_NO_THROW(static_cast<void>(prototype_of(call.symbol))) << call.symbol;
    }
  }
  EXPECT_EQ(of_c, kPrototypes.size());
}

TEST(CallingConvention, X86FindsEveryArgumentOfEveryRow) {
  for (const Prototype& prototype : kPrototypes) {
    const st_call_spec& spec = row_of(prototype.symbol).spec;
    const X86Call call(prototype);
    st_arguments arguments{};
    st_read_arguments_x86_64(&call.registers, &spec, &arguments);
    expect_arguments(prototype, spec, arguments);
    EXPECT_EQ(arguments.id_address, call.id_address) << prototype.symbol;
  }
}

TEST(CallingConvention, Arm64FindsEveryArgumentOfEveryRow) {
  for (const Prototype& prototype : kPrototypes) {
    const st_call_spec& spec = row_of(prototype.symbol).spec;
    const Arm64Call call(prototype);
    st_arguments arguments{};
    st_read_arguments_arm64(&call.registers, &spec, &arguments);
    expect_arguments(prototype, spec, arguments);
    EXPECT_EQ(arguments.id_address, spec.id_by_value ? address_of(call.id_copy.data()) : 0) << prototype.symbol;
  }
}

TEST(CallingConvention, X86StackArgumentsAreEightBytesApart) {
  const Prototype& reduce = prototype_of("ncclReduce");
  const X86Call call(reduce);
  st_arguments arguments{};
  st_read_arguments_x86_64(&call.registers, &row_of("ncclReduce").spec, &arguments);
  EXPECT_EQ(arguments.slot[7], call.stack[1]);
  EXPECT_EQ(arguments.slot[8], call.stack[2]);
}

/// A call with all its arguments in registers must not read the caller's stack, which may not be mapped there.
TEST(CallingConvention, X86LeavesTheStackAloneWithoutStackArguments) {
  X86Call call(prototype_of("ncclAllGather"));
  call.registers.sp = 0;  // a read would crash here
  st_arguments arguments{};
  st_read_arguments_x86_64(&call.registers, &row_of("ncclAllGather").spec, &arguments);
  EXPECT_EQ(arguments.slot[7], 0U);
}

/// A return address has a call before it.
TEST(CallingConvention, CodeBeforeAReturnAddress) {
  using Code = std::array<uint8_t, ST_CODE_BYTES>;
  for (const Code& code : {Code{0, 0, 0, 0xe8, 1, 2, 3, 4},           // call rel32
                           Code{0, 0, 0, 0, 0, 0, 0xff, 0xd0},        // call *%rax
                           Code{0, 0, 0, 0, 0, 0x41, 0xff, 0xd4},     // call *%r12
                           Code{0, 0, 0, 0, 0, 0xff, 0x50, 0x18},     // call *0x18(%rax)
                           Code{0, 0, 0, 0, 0xff, 0x54, 0x24, 8},     // call *8(%rsp)
                           Code{0, 0, 0xff, 0x15, 1, 2, 3, 4},        // call *0x4030201(%rip)
                           Code{0, 0xff, 0x94, 0x24, 1, 2, 3, 4}}) {  // call *0x4030201(%rsp)
    EXPECT_TRUE(st_is_behind_call_x86_64(code.data()));
  }
  for (const Code& code :
       {Code{}, Code{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90}, Code{0, 0, 0, 0xe9, 1, 2, 3, 4},  // jmp rel32
        Code{0, 0, 0, 0, 0, 0, 0xff, 0xe0},                                                             // jmp *%rax
        Code{0, 0, 0xe8, 1, 2, 3, 4, 5}}) {  // one byte after the call
    EXPECT_FALSE(st_is_behind_call_x86_64(code.data()));
  }
  const auto code_of = [](uint32_t instruction) {
    Code code{};
    std::memcpy(code.data() + 4, &instruction, sizeof instruction);
    return code;
  };
  for (const uint32_t call : {0x94000010U, 0x97fffff0U, 0xd63f0000U, 0xd63f0120U, 0xd63f083fU, 0xd73f0921U}) {
    EXPECT_TRUE(st_is_behind_call_arm64(code_of(call).data())) << std::hex << call;
  }
  for (const uint32_t other : {0U, 0x14000010U, 0xd61f0000U, 0xd65f03c0U, 0xd503201fU}) {  // b, br, ret, nop
    EXPECT_FALSE(st_is_behind_call_arm64(code_of(other).data())) << std::hex << other;
  }
  const auto* here = static_cast<const uint8_t*>(__builtin_return_address(0));
#if defined(__x86_64__)
  EXPECT_TRUE(st_is_behind_call_x86_64(here - ST_CODE_BYTES)) << "a real one";
#elif defined(__aarch64__)
  EXPECT_TRUE(st_is_behind_call_arm64(here - ST_CODE_BYTES)) << "a real one";
#endif
}

/// Reading the id's address from the third register and the rank from the fourth, as if the id were passed by pointer,
/// is wrong on x86-64 and right on arm64.
TEST(CallingConvention, ReadingTheIdAsAThirdRegisterIsWrongOnX86) {
  for (const std::string_view symbol : {"ncclCommInitRank", "ncclCommInitRankConfig"}) {
    const Prototype& prototype = prototype_of(symbol);
    const uint64_t rank = value_of(3);
    const X86Call x86(prototype);
    EXPECT_NE(x86.registers.cx, rank) << symbol;
    EXPECT_NE(x86.registers.dx, x86.id_address) << symbol;
    EXPECT_EQ(x86.registers.dx, rank) << symbol;
    const Arm64Call arm64(prototype);
    EXPECT_EQ(arm64.registers.regs[2], address_of(arm64.id_copy.data())) << symbol;
    EXPECT_EQ(arm64.registers.regs[3], rank) << symbol;
  }
}

}  // namespace
}  // namespace stalltrace::capture
