// SPDX-License-Identifier: Apache-2.0
// Invariants of the call table that the kernel programs and the tracker rely on.
#include "capture/discover/call_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace stalltrace::capture {
namespace {

std::array<uint8_t, 19> slots_of(const st_call_spec& spec) {
  return {spec.count,        spec.datatype, spec.reduce_op, spec.root,   spec.peer,   spec.comm,  spec.stream,
          spec.event,        spec.new_comm, spec.out,       spec.nranks, spec.rank,   spec.color, spec.key,
          spec.mpi_datatype, spec.request,  spec.id,        spec.done,   spec.indices};
}

uint8_t highest_slot(const st_call_spec& spec) {
  const auto slots = slots_of(spec);
  return *std::max_element(slots.begin(), slots.end());
}

TEST(CallTable, EachSymbolOnce) {
  std::set<std::string_view> symbols;
  for (const Call& call : call_table()) {
    EXPECT_TRUE(symbols.insert(call.symbol).second) << call.symbol;
  }
}

TEST(CallTable, FitsTheKernelsTable) { EXPECT_LE(call_table().size(), static_cast<size_t>(ST_MAX_CALLS)); }

TEST(CallTable, EachSlotIsUsedOnceAndCanBeRead) {
  constexpr uint8_t kReadable = 6 + ST_MAX_STACK_ARGUMENTS;  // x86-64 has six registers
  for (const Call& call : call_table()) {
    std::set<uint8_t> used;
    for (const uint8_t slot : slots_of(call.spec)) {
      EXPECT_LE(slot, kReadable) << call.symbol;
      EXPECT_TRUE(slot == 0 || used.insert(slot).second) << call.symbol << " slot " << int{slot};
    }
  }
}

TEST(CallTable, StackArgumentsAgreeWithTheHighestSlot) {
  constexpr int kRegisters = 6;
  for (const Call& call : call_table()) {
    EXPECT_EQ(call.spec.stack_arguments, std::max(0, highest_slot(call.spec) - kRegisters)) << call.symbol;
  }
}

TEST(CallTable, AnIdByValueHasNoSlotAndLeavesNoStackArguments) {
  for (const Call& call : call_table()) {
    if (call.spec.id_by_value) {
      EXPECT_EQ(call.spec.id, 0) << call.symbol;
      EXPECT_EQ(call.spec.stack_arguments, 0) << call.symbol;
    }
  }
}

TEST(CallTable, EachKindHasTheSlotsItNeeds) {
  for (const Call& call : call_table()) {
    const st_call_spec& spec = call.spec;
    SCOPED_TRACE(call.symbol);
    switch (spec.kind) {
      case ST_CALL_DATA:
        EXPECT_NE(spec.comm != 0, spec.options != 0);
        if (spec.options) {
          EXPECT_TRUE(spec.option_tag && spec.entry_only && spec.blocking);
          EXPECT_EQ(spec.option_element_bytes != 0, spec.option_count != 0 || spec.option_buffer != 0);
        } else if (static_cast<Library>(spec.library) == Library::kNccl) {
          EXPECT_TRUE(spec.count && spec.datatype && spec.stream);
        } else {
          EXPECT_EQ(spec.count != 0, spec.mpi_datatype != 0);
          EXPECT_NE(spec.blocking != 0, spec.request != 0);  // one of the two shows when the call is done
        }
        EXPECT_TRUE(moves_data(static_cast<Operation>(spec.operation)));
        EXPECT_EQ(spec.peer != 0, is_point_to_point(static_cast<Operation>(spec.operation)));
        break;
      case ST_CALL_COMM_INIT:
        if (spec.entry_only) {
          EXPECT_TRUE(spec.comm);
          break;
        }
        EXPECT_TRUE(spec.new_comm && spec.nranks && spec.rank);
        EXPECT_TRUE(spec.id != 0 || spec.id_by_value != 0);
        break;
      case ST_CALL_COMM_INIT_ALL:
        EXPECT_TRUE(spec.new_comm && spec.nranks);
        break;
      case ST_CALL_COMM_SPLIT:
        EXPECT_TRUE(spec.comm && spec.new_comm);
        break;
      case ST_CALL_COMM_END:
        EXPECT_TRUE(spec.comm);
        break;
      case ST_CALL_COMM_QUERY_RANK:
      case ST_CALL_COMM_QUERY_COUNT:
        EXPECT_TRUE(spec.comm && spec.out);
        break;
      case ST_CALL_WORLD_INIT:
      case ST_CALL_WORLD_END:
      case ST_CALL_FINISHED:
      case ST_CALL_FAILED:
      case ST_CALL_SET_UP:
      case ST_CALL_GROUP_START:
      case ST_CALL_GROUP_END:
      case ST_CALL_SYNC_DEVICE:
        EXPECT_EQ(highest_slot(spec), 0);
        break;
      case ST_CALL_SYNC_STREAM:
        EXPECT_TRUE(spec.stream);
        break;
      case ST_CALL_SYNC_EVENT:
        EXPECT_TRUE(spec.event);
        break;
      case ST_CALL_EVENT_RECORD:
      case ST_CALL_STREAM_WAIT_EVENT:
        EXPECT_TRUE(spec.event && spec.stream);
        break;
      case ST_CALL_WAIT_REQUEST:
        EXPECT_TRUE(spec.request);
        break;
      case ST_CALL_WAIT_ALL_REQUESTS:
        EXPECT_TRUE(spec.request && spec.count);
        break;
      case ST_CALL_WAIT_ANY_REQUEST:
        EXPECT_TRUE(spec.request && spec.count && spec.out);
        break;
      case ST_CALL_WAIT_SOME_REQUESTS:
        EXPECT_TRUE(spec.request && spec.count && spec.done && spec.indices);
        break;
      default:
        ADD_FAILURE() << "kind " << int{spec.kind};
    }
    const bool is_sync = spec.kind >= ST_CALL_SYNC_STREAM && spec.kind <= ST_CALL_STREAM_WAIT_EVENT;
    const bool is_framework = spec.kind >= ST_CALL_FINISHED && spec.kind <= ST_CALL_SET_UP;
    EXPECT_EQ(call.family, is_sync        ? CallFamily::kGpuRuntime
                           : is_framework ? CallFamily::kFramework
                                          : CallFamily::kCollectiveLibrary);
  }
}

/// A polled call needs the slot that says whether anything is done; without it every poll would be reported.
TEST(CallTable, WhatIsPolledSaysWhetherAnythingIsDone) {
  int polled = 0;
  for (const Call& call : call_table()) {
    const bool is_poll = call.symbol.starts_with("MPI_Test");
    const bool knows_done = is_poll || call.spec.kind == ST_CALL_WAIT_SOME_REQUESTS;
    EXPECT_EQ(call.spec.done != 0, knows_done) << call.symbol;
    polled += is_poll ? 1 : 0;
  }
  EXPECT_EQ(polled, 4);
}

/// An exception that unwinds through a return probe ends the process, so C++ functions must not have one.
TEST(CallTable, WhatMayThrowHasNoReturnProbe) {
  for (const Call& call : call_table()) {
    EXPECT_EQ(call.spec.entry_only != 0, call.symbol.starts_with("_Z")) << call.symbol;
  }
}

}  // namespace
}  // namespace stalltrace::capture
