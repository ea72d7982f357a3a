// SPDX-License-Identifier: Apache-2.0
// After SIGKILL at any moment, the file's complete records are correct and open events are present.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "plugin/testing/host.h"

namespace stalltrace::plugin::testing {
namespace {

/// Every number of a collective follows from its sequence number, so that a mix of two collectives would show.
void record_forever(Job<V5>& job) {
  for (uint64_t number = 0;; ++number) {
    void* coll =
        job.coll(nullptr, {.sequence = number, .count = number * 7 + 5, .root = static_cast<int>(number % 97)});
    void* op = job.op(coll, true, static_cast<int>(number % 1000), static_cast<int>(number % 32));
    void* step = job.step(op, static_cast<int>(number % 1000));
    job.state(step, nccl::kStateSendWait, number);
    job.stop(coll);
    job.stop(step);
    job.stop(op);
  }
}

/// A file is not valid before its header is complete, which a slow machine makes visible.
bool is_made(const BoxFolder& folder) {
  const std::vector<std::string> boxes = folder.boxes();
  try {
    return !boxes.empty() && read_box(boxes.front()).header.pid != 0;
  } catch (const std::exception&) {
    return false;
  }
}

bool is_coll(const st_box_event& event) { return event.type == ST_BOX_COLL; }

void expect_true(const st_box_event& event) {
  if (is_coll(event)) {
    const st_box_coll& coll = event.u.coll;
    EXPECT_EQ(coll.count, coll.sequence * 7 + 5);
    EXPECT_EQ(coll.root_or_peer, static_cast<int>(coll.sequence % 97));
    EXPECT_EQ(coll.operation, ST_BOX_OP_ALL_REDUCE);
  } else if (event.type == ST_BOX_PROXY_OP) {
    EXPECT_EQ(event.u.proxy_op.peer % 8, event.channels % 8) << "1000 and 32 are multiples of 8";
    EXPECT_EQ(event.u.proxy_op.steps, 4);
    EXPECT_EQ(event.u.proxy_op.chunk_bytes, 65536);
  } else {
    EXPECT_EQ(event.type, ST_BOX_PROXY_STEP);
  }
  EXPECT_EQ(event.rank, 1);
}

TEST(Crash, KilledAtAnyMoment) {
  std::mt19937 random(20261121);
  std::uniform_int_distribution<int> moment_us(500, 20000);
  uint64_t records = 0;
  uint64_t unreadable = 0;
  for (int round = 0; round < 40; ++round) {
    const BoxFolder folder;
    setenv("STALLTRACE_RING_SIZE", "1m", 1);  // soon full, so that kills also hit overwriting
    const pid_t writer = fork();
    if (writer == 0) {
      static const Library library;
      static Job<V5> job(library);
      std::thread([] { record_forever(job); }).detach();
      record_forever(job);
    }
    while (!is_made(folder)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(15) + std::chrono::microseconds(moment_us(random)));
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);

    const BoxView view = folder.read();
    EXPECT_EQ(view.header.pid, static_cast<uint32_t>(writer));
    std::for_each(view.ended.begin(), view.ended.end(), expect_true);
    std::for_each(view.open.begin(), view.open.end(), expect_true);
    EXPECT_LE(view.open.size(), 6U) << "two threads, three open events each";
    const uint64_t lapped = view.header.lost[ST_BOX_LOST_LAPPED];  // a thread lost its CPU for a whole lap of the ring
    EXPECT_LE(view.unreadable, 2U + lapped) << "one record a thread";
    records += view.ended.size();
    unreadable += view.unreadable;
  }
  EXPECT_GT(records, 10000U);
  RecordProperty("records", static_cast<int>(records));
  RecordProperty("unreadable", static_cast<int>(unreadable));
}

TEST(Crash, TheOpenCollectiveIsThere) {
  const BoxFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t writer = fork();
  if (writer == 0) {
    static const Library library;
    static Job<V5> job(library);
    for (uint64_t number = 0; number < 100; ++number) {
      void* coll = job.coll(nullptr, {.sequence = number});
      job.stop(coll);
      void* op = job.op(coll, false, 3, 1);
      void* step = job.step(op, 0);
      job.state(step, nccl::kStateRecvWait);
      if (number == 99) {
        break;
      }
      job.stop(step);
      job.stop(op);
    }
    const char byte = 'x';
    (void)!write(ready[1], &byte, 1);
    pause();
  }
  char byte = 'x';
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(writer, SIGKILL);
  waitpid(writer, nullptr, 0);
  const BoxView view = folder.read();
  EXPECT_EQ(view.of_type(ST_BOX_COLL).size(), 99U);
  ASSERT_EQ(view.open.size(), 3U);
  const auto coll = std::find_if(view.open.begin(), view.open.end(), is_coll);
  ASSERT_NE(coll, view.open.end());
  EXPECT_EQ(coll->u.coll.sequence, 99U);
  EXPECT_NE(coll->u.coll.enqueued_ns, 0U);
  EXPECT_EQ(coll->end_ns, 0U);
  EXPECT_EQ(view.header.state, ST_BOX_RECORDING);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace stalltrace::plugin::testing
