// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/wait_decoder.h"

#include <gtest/gtest.h>

#include <cstring>

namespace stalltrace::capture {
namespace {

constexpr int64_t kOffset = 1'000'000;

TEST(WaitDecoder, AWaitKeepsItsNumbers) {
  st_wait record{};
  record.header = {.time_ns = 500, .tgid = 10, .tid = 11};
  record.end_ns = 900;
  record.waited_ns = 300;
  record.by_waited_ns = 200;
  record.count = 4;
  record.by_tgid = 77;
  record.kind = ST_WAIT_RUNNABLE;
  std::memcpy(record.thread_name, "sixteen bytes !!", ST_COMM_LEN);  // not terminated
  std::strcpy(record.by_name, "hog");
  const WaitSpan span = decode_wait(record, 5, kOffset);
  EXPECT_EQ(span.node_id, 5U);
  EXPECT_EQ(span.timestamp_ns, 500 + kOffset);
  EXPECT_EQ(span.window_ns, 400);
  EXPECT_EQ(span.waited_ns, 300);
  EXPECT_EQ(span.by_waited_ns, 200);
  EXPECT_EQ(span.count, 4U);
  EXPECT_EQ(span.kind, WaitKind::kRunnable);
  EXPECT_EQ(span.pid, 10);
  EXPECT_EQ(span.tid, 11);
  EXPECT_EQ(span.thread_name, "sixteen bytes !!");
  EXPECT_EQ(span.by_pid, 77);
  EXPECT_EQ(span.by_name, "hog");
  EXPECT_FALSE(span.open);
}

TEST(WaitDecoder, TheKindsOfBothSidesAgree) {
  EXPECT_EQ(static_cast<int>(WaitKind::kRunnable), ST_WAIT_RUNNABLE);
  EXPECT_EQ(static_cast<int>(WaitKind::kBlocked), ST_WAIT_BLOCKED);
  EXPECT_EQ(static_cast<int>(WaitKind::kDisk), ST_WAIT_DISK);
  EXPECT_EQ(static_cast<int>(WaitKind::kStopped), ST_WAIT_STOPPED);
  EXPECT_EQ(static_cast<int>(WaitKind::kOnCpu), ST_WAIT_ON_CPU);
}

TEST(WaitDecoder, AStoppedThreadIsAnOpenWaitSinceItLeftTheCpu) {
  st_thread_listing thread{};
  thread.header.time_ns = 1000;
  thread.header.tgid = 10;
  thread.header.tid = 11;
  thread.off_kind = ST_WAIT_STOPPED;
  thread.off_ns = 400;
  const WaitSpan span = decode_open_wait(thread, 5, kOffset);
  EXPECT_TRUE(span.open);
  EXPECT_EQ(span.kind, WaitKind::kStopped);
  EXPECT_EQ(span.timestamp_ns, 400 + kOffset);
  EXPECT_EQ(span.window_ns, 600);
  EXPECT_EQ(span.waited_ns, 600);
  EXPECT_EQ(span.pid, 10);
  EXPECT_EQ(span.tid, 11);
}

TEST(WaitDecoder, AThreadThatBecameReadyIsRunnableSinceThen) {
  st_thread_listing thread{};
  thread.header.time_ns = 1000;
  thread.off_kind = ST_WAIT_BLOCKED;
  thread.off_ns = 400;
  thread.ready_ns = 700;
  const WaitSpan span = decode_open_wait(thread, 5, kOffset);
  EXPECT_EQ(span.kind, WaitKind::kRunnable);
  EXPECT_EQ(span.timestamp_ns, 700 + kOffset);
  EXPECT_EQ(span.waited_ns, 300);
}

}  // namespace
}  // namespace stalltrace::capture
