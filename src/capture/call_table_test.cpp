// SPDX-License-Identifier: Apache-2.0
// Invariants of the call table that the kernel programs and the tracker rely on.
#include "capture/call_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

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

using Slot = __u8 st_call_spec::*;

/// The slots that a call of this kind must have; where there are none, it may have none.
struct Needs {
  st_call_kind kind;
  std::vector<Slot> slots;
};

std::vector<Needs> needs_by_kind() {
  using Spec = st_call_spec;
  return {{ST_CALL_COMM_INIT_ALL, {&Spec::new_comm, &Spec::nranks}},
          {ST_CALL_COMM_SPLIT, {&Spec::comm, &Spec::new_comm}},
          {ST_CALL_COMM_END, {&Spec::comm}},
          {ST_CALL_COMM_QUERY_RANK, {&Spec::comm, &Spec::out}},
          {ST_CALL_COMM_QUERY_COUNT, {&Spec::comm, &Spec::out}},
          {ST_CALL_WORLD_INIT, {}},
          {ST_CALL_WORLD_END, {}},
          {ST_CALL_FINISHED, {}},
          {ST_CALL_FAILED, {}},
          {ST_CALL_SET_UP, {}},
          {ST_CALL_GROUP_START, {}},
          {ST_CALL_GROUP_END, {}},
          {ST_CALL_SYNC_DEVICE, {}},
          {ST_CALL_SYNC_STREAM, {&Spec::stream}},
          {ST_CALL_SYNC_EVENT, {&Spec::event}},
          {ST_CALL_EVENT_RECORD, {&Spec::event, &Spec::stream}},
          {ST_CALL_STREAM_WAIT_EVENT, {&Spec::event, &Spec::stream}},
          {ST_CALL_BEGIN_CAPTURE, {&Spec::stream}},
          {ST_CALL_END_CAPTURE, {&Spec::stream}},
          {ST_CALL_GRAPH_LAUNCH, {&Spec::stream}},
          {ST_CALL_WAIT_REQUEST, {&Spec::request}},
          {ST_CALL_WAIT_ALL_REQUESTS, {&Spec::request, &Spec::count}},
          {ST_CALL_WAIT_ANY_REQUEST, {&Spec::request, &Spec::count, &Spec::out}},
          {ST_CALL_WAIT_SOME_REQUESTS, {&Spec::request, &Spec::count, &Spec::done, &Spec::indices}}};
}

/// Calls that move data or make a communicator have tests of their own.
TEST(CallTable, EachKindHasTheSlotsItNeeds) {
  const std::vector<Needs> all = needs_by_kind();
  for (const Call& call : call_table()) {
    const st_call_spec& spec = call.spec;
    if (spec.kind == ST_CALL_DATA || spec.kind == ST_CALL_COMM_INIT) {
      continue;
    }
    SCOPED_TRACE(call.symbol);
    const auto needs =
        std::ranges::find(all, spec.kind, [](const Needs& one) { return static_cast<uint8_t>(one.kind); });
    ASSERT_NE(needs, all.end()) << "kind " << int{spec.kind};
    for (const Slot slot : needs->slots) {
      EXPECT_NE(spec.*slot, 0) << "slot " << &slot - needs->slots.data();
    }
    EXPECT_TRUE(!needs->slots.empty() || highest_slot(spec) == 0);
  }
}

TEST(CallTable, ADataCallShowsWhatItMovesAndWhenItIsDone) {
  for (const Call& call : call_table()) {
    const st_call_spec& spec = call.spec;
    if (spec.kind != ST_CALL_DATA) {
      continue;
    }
    SCOPED_TRACE(call.symbol);
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
  }
}

TEST(CallTable, ANewCommunicatorHasItsRankSizeAndId) {
  for (const Call& call : call_table()) {
    const st_call_spec& spec = call.spec;
    if (spec.kind != ST_CALL_COMM_INIT) {
      continue;
    }
    SCOPED_TRACE(call.symbol);
    if (spec.entry_only) {
      EXPECT_TRUE(spec.comm);
      continue;
    }
    EXPECT_TRUE(spec.new_comm && spec.nranks && spec.rank);
    EXPECT_TRUE(spec.id != 0 || spec.id_by_value != 0);
  }
}

TEST(CallTable, TheKindSaysWhichFamilyACallIsOf) {
  for (const Call& call : call_table()) {
    const auto kind = call.spec.kind;
    const bool is_sync = (kind >= ST_CALL_SYNC_STREAM && kind <= ST_CALL_STREAM_WAIT_EVENT) ||
                         (kind >= ST_CALL_BEGIN_CAPTURE && kind <= ST_CALL_GRAPH_LAUNCH);
    const bool is_framework = kind >= ST_CALL_FINISHED && kind <= ST_CALL_SET_UP;
    EXPECT_EQ(call.family, is_sync        ? CallFamily::kGpuRuntime
                           : is_framework ? CallFamily::kFramework
                                          : CallFamily::kCollectiveLibrary)
        << call.symbol;
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
