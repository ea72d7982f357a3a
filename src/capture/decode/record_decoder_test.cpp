// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/record_decoder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

#include "model/memory_source.h"
#include "wire/host_drops.h"
#include "wire/python.h"

namespace stalltrace::capture {
namespace {

constexpr uint32_t kPid = 42;

class RecordDecoderTest : public testing::Test {
 protected:
  template <typename Record>
  static Record record_of(uint16_t type) {
    Record record{};
    record.header.version = ST_WIRE_VERSION;
    record.header.type = type;
    record.header.size = sizeof record;
    record.header.tgid = kPid;
    record.header.time_ns = 1'000;
    return record;
  }
  template <typename Record>
  void decode(const Record& record, size_t bytes = sizeof(Record)) {
    decoder_.decode(std::as_bytes(std::span(&record, 1)).first(bytes));
  }

  Node node_{.node_id = 1};
  Procfs procfs_{"/nowhere"};
  MemorySource sink_;
  std::vector<std::pair<pid_t, uint32_t>> called_;
  RecordDecoder decoder_{node_,
                         procfs_,
                         sink_,
                         {.ticks_per_second = 250,
                          .profiler_files = {},
                          .on_call = [this](pid_t pid, uint32_t user) { called_.emplace_back(pid, user); },
                          .report = [](const std::string&) {}}};
};

TEST_F(RecordDecoderTest, AWaitBecomesARow) {
  auto wait = record_of<st_wait>(ST_RECORD_WAIT);
  wait.end_ns = 5'000;
  decode(wait);
  size_t rows = 0;
  ASSERT_TRUE(sink_.wait_spans({}, [&](const WaitSpan& row) {
    ++rows;
    EXPECT_EQ(row.pid, static_cast<int32_t>(kPid));
    EXPECT_EQ(row.window_ns, 4'000);
  }));
  EXPECT_EQ(rows, 1U);
  EXPECT_EQ(decoder_.malformed(), 0U);
}

TEST_F(RecordDecoderTest, WhatIsNoRecordIsCountedAsALoss) {
  auto wait = record_of<st_wait>(ST_RECORD_WAIT);
  decode(wait, sizeof(st_header) - 1);  // no whole header
  decode(wait, sizeof wait - 1);        // shorter than its header says
  wait.header.size = sizeof(st_header);
  decode(wait, sizeof(st_header));  // shorter than its type
  wait = record_of<st_wait>(ST_RECORD_WAIT);
  wait.header.version = ST_WIRE_VERSION + 1;
  decode(wait);
  decode(record_of<st_wait>(0xffff));
  EXPECT_EQ(decoder_.malformed(), 5U);
  decoder_.deliver_losses();
  const auto losses = sink_.losses();
  ASSERT_TRUE(losses);
  ASSERT_EQ(losses->size(), 1U);
  EXPECT_EQ(losses->front().source, "ring:malformed");
  EXPECT_EQ(losses->front().count, 5U);
}

/// Its header must state the size of its type: another version of the programs may have written it.
TEST_F(RecordDecoderTest, ARecordOfAnotherSizeIsMalformed) {
  struct Longer {
    st_wait wait;
    uint64_t more = 0;
  } longer{.wait = record_of<st_wait>(ST_RECORD_WAIT)};
  const auto bytes = std::as_bytes(std::span(&longer, 1));
  longer.wait.header.size = sizeof longer;
  decoder_.decode(bytes);
  longer.wait.header.size = sizeof(st_wait) - 1;  // though there are bytes enough for one
  decoder_.decode(bytes);
  auto exception = record_of<st_python_exception>(ST_RECORD_PYTHON_EXCEPTION);
  exception.header.size = sizeof exception - 1;
  decode(exception);
  auto killed = record_of<st_oom_kill>(ST_RECORD_OOM_KILL);
  killed.header.size = 0;
  decode(killed);
  EXPECT_EQ(decoder_.malformed(), 4U);
  size_t rows = 0;
  ASSERT_TRUE(sink_.wait_spans({}, [&](const WaitSpan&) { ++rows; }));
  EXPECT_EQ(rows, 0U);
  longer.wait.header.size = sizeof(st_wait);
  decoder_.decode(bytes);
  ASSERT_TRUE(sink_.wait_spans({}, [&](const WaitSpan&) { ++rows; }));
  EXPECT_EQ(rows, 1U);
  EXPECT_EQ(decoder_.malformed(), 4U);
}

TEST_F(RecordDecoderTest, AFirstCallIsReportedToTheOwner) {
  auto record = record_of<st_process_seen>(ST_RECORD_PROCESS);
  record.user = 1000;
  decode(record);
  EXPECT_EQ(called_, (std::vector<std::pair<pid_t, uint32_t>>{{kPid, 1000}}));
}

TEST_F(RecordDecoderTest, AnExitWaitsUntilItIsTaken) {
  decoder_.begin_process({.node_id = 1, .pid = kPid}, Library::kNccl, {});
  decode(record_of<st_exit>(ST_RECORD_EXIT));
  EXPECT_FALSE(decoder_.has_ended(kPid));
  const auto ended = decoder_.take_exits();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_TRUE(decoder_.take_exits().empty());
  decoder_.end_process(ended.front());
  EXPECT_TRUE(decoder_.has_ended(kPid));
  EXPECT_TRUE(decoder_.knows(kPid));
  EXPECT_FALSE(decoder_.knows(kPid + 1));
}

/// A process of the same number inherits nothing, and its row is another.
TEST_F(RecordDecoderTest, ALostExitIsAnEndWithoutACode) {
  ASSERT_TRUE(decoder_.admit(kPid, 1000, 1));
  decoder_.begin_process({.node_id = 1, .pid = kPid, .start_ns = 10}, Library::kNccl, {});
  decoder_.end_process(kPid, 5'000);
  ASSERT_TRUE(decoder_.admit(kPid, 2000, 6'000));
  EXPECT_EQ(decoder_.user_of(kPid), 2000U);
  decoder_.begin_process({.node_id = 1, .pid = kPid, .start_ns = 5'500}, Library::kNccl, {});
  EXPECT_FALSE(decoder_.has_ended(kPid));
  const auto processes = *sink_.processes();
  ASSERT_EQ(processes.size(), 2U);
  EXPECT_EQ(processes[0].exit_ns, 5'000);
  EXPECT_EQ(processes[0].exit_code, std::nullopt);
  EXPECT_EQ(processes[0].exit_signal, std::nullopt);
  EXPECT_EQ(processes[1].exit_ns, std::nullopt);
}

TEST_F(RecordDecoderTest, NothingIsDecodedOfAProcessThatIsNotFollowed) {
  for (int32_t pid = 1000; decoder_.admit(pid, 1000, 1); ++pid) {
  }
  ASSERT_FALSE(decoder_.admit(kPid, 1000, 1));
  decode(record_of<st_wait>(ST_RECORD_WAIT));
  size_t rows = 0;
  ASSERT_TRUE(sink_.wait_spans({}, [&](const WaitSpan&) { ++rows; }));
  EXPECT_EQ(rows, 0U);
  ASSERT_TRUE(decoder_.admit(kPid, 2000, 1));
  decode(record_of<st_wait>(ST_RECORD_WAIT));
  ASSERT_TRUE(sink_.wait_spans({}, [&](const WaitSpan&) { ++rows; }));
  EXPECT_EQ(rows, 1U);
}

}  // namespace
}  // namespace stalltrace::capture
