// SPDX-License-Identifier: Apache-2.0
// Calls that are captured into CUDA graphs do not run; the launches of graphs are counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/testing/tracked_calls.h"

namespace stalltrace::capture {
namespace {

using testing::ElementsAre;
using testing::Optional;
using testing::SizeIs;

class CapturedCalls : public CollectiveTrackerTest {
 protected:
  static constexpr uint64_t kOther = 0x99;
  static constexpr uint64_t kEvent = 0xe;

  CapturedCalls() { processes_.add({.node_id = kNode, .pid = kPid, .start_ns = 5}); }

  void call(std::string_view symbol, uint64_t at_ns, uint64_t stream = kStream, int32_t code = 0, uint64_t event = 0) {
    st_sync record = synced(symbol, at_ns, at_ns + 10);
    record.stream = stream;
    record.return_code = code;
    record.event = event;
    tracker_.on_sync(record);
  }
  std::vector<Completion> completions() {
    tracker_.deliver_open();
    std::vector<Completion> all;
    for (const Collective& row : rows()) {
      all.push_back(row.completion);
    }
    return all;
  }
  GraphUse use() {
    tracker_.deliver_open();
    const auto all = *sink_.graph_uses();
    EXPECT_LE(all.size(), 1U);
    return all.empty() ? GraphUse{} : all[0];
  }
};

TEST_F(CapturedCalls, EndWithTheirLaunch) {
  call("cudaStreamBeginCapture", 1000);
  launch("ncclAllReduce", 2000);
  call("cudaStreamEndCapture", 9000);
  launch("ncclAllReduce", 10'000, 1);
  call("cudaStreamSynchronize", 20'000);
  EXPECT_THAT(completions(), ElementsAre(Completion::kCaptured, Completion::kSync));
  EXPECT_EQ(rows()[0].duration_ns, std::nullopt);
  EXPECT_THAT(rows()[0].launch_ns, Optional(5000));
  EXPECT_EQ(rows()[0].known_end_ns(), utc(7000));
  EXPECT_EQ(use().captured, 1);
  EXPECT_EQ(use().launches, 0);
}

TEST_F(CapturedCalls, OnesOfAGroupAreCapturedWithTheirGroup) {
  call("cudaStreamBeginCapture", 500);
  st_call_entry member = entry("ncclAllReduce", 1000);
  member.flags = ST_CALL_IN_GROUP;
  tracker_.on_entry(member);
  st_call_return done = returned("ncclAllReduce", 1000, 1010);
  done.flags = ST_CALL_IN_GROUP;
  tracker_.on_return(done);
  EXPECT_EQ(use().captured, 0) << "its group has not ended";
  tracker_.on_entry(entry("ncclGroupEnd", 2000));
  tracker_.on_return(returned("ncclGroupEnd", 2000, 2500));
  const Collective row = only(Operation::kAllReduce);
  EXPECT_EQ(row.completion, Completion::kCaptured);
  EXPECT_THAT(row.launch_ns, Optional(500));
  EXPECT_EQ(use().captured, 1);
}

/// As in PyTorch: the collective has a stream of its own, which waits for the one on which the capture began.
TEST_F(CapturedCalls, AStreamJoinsByAnEventAndLeavesWithTheOthers) {
  call("cudaEventRecord", 500, kOther, 0, kEvent);
  call("cudaStreamWaitEvent", 600, kStream, 0, kEvent);
  launch("ncclAllReduce", 700);
  call("cudaStreamBeginCapture", 1000, kOther);
  call("cudaEventRecord", 1100, kOther, 0, kEvent);
  call("cudaStreamWaitEvent", 1200, kStream, 0, kEvent);
  launch("ncclAllReduce", 2000, 1);
  call("cudaStreamEndCapture", 9000, kOther);
  launch("ncclAllReduce", 10'000, 2);
  call("cudaStreamWaitEvent", 20'000, kStream, 0, kEvent);
  launch("ncclAllReduce", 30'000, 3);
  EXPECT_THAT(completions(),
              ElementsAre(Completion::kOpen, Completion::kCaptured, Completion::kOpen, Completion::kOpen));
}

TEST_F(CapturedCalls, ACaptureEndsAlsoWhereItFailsAndBySynchronisationWhereItsEndWasLost) {
  call("cudaStreamBeginCapture", 1000);
  call("cudaStreamEndCapture", 2000, kStream, 901);
  launch("ncclAllReduce", 3000);
  call("cudaStreamBeginCapture", 10'000);
  call("cudaStreamSynchronize", 20'000);
  launch("ncclAllReduce", 30'000, 1);
  EXPECT_THAT(completions(), ElementsAre(Completion::kSync, Completion::kOpen));
}

TEST_F(CapturedCalls, OneThatHangsInItsLaunchIsOpen) {
  call("cudaStreamBeginCapture", 1000);
  tracker_.on_entry(entry("ncclAllReduce", 2000));
  EXPECT_THAT(completions(), ElementsAre(Completion::kOpen));
  tracker_.on_return(returned("ncclAllReduce", 2000, 3000));
  EXPECT_THAT(completions(), ElementsAre(Completion::kCaptured));
}

TEST_F(CapturedCalls, OnesWhoseCaptureBeganUnseenHaveNoEnd) {
  launch("ncclAllReduce", 2000);
  call("cudaStreamEndCapture", 9000, kOther);
  EXPECT_THAT(completions(), ElementsAre(Completion::kUnobserved));
  EXPECT_EQ(use().captured, 1);
}

TEST_F(CapturedCalls, OnesWhoseStreamJoinedUnseenHaveNoEnd) {
  launch("ncclAllReduce", 500);
  call("cudaStreamBeginCapture", 10'000, kOther);
  launch("ncclAllReduce", 20'000, 1);
  call("cudaStreamEndCapture", 30'000, kOther);
  EXPECT_THAT(completions(), ElementsAre(Completion::kOpen, Completion::kUnobserved));
}

TEST_F(CapturedCalls, ACaptureWhoseEndWasLostIsOverByWhatItWouldRefuse) {
  uint64_t at_ns = 0;
  const auto captured_stream = [&] {
    call("cudaStreamBeginCapture", at_ns + 1000, kOther);
    call("cudaEventRecord", at_ns + 1100, kOther, 0, kEvent);
    call("cudaStreamWaitEvent", at_ns + 1200, kStream, 0, kEvent);
  };
  const auto is_captured = [&] {
    launch("ncclAllReduce", at_ns + 50'000, at_ns);
    at_ns += 100'000;
    return completions().back() == Completion::kCaptured;
  };
  captured_stream();
  EXPECT_TRUE(is_captured());
  call("cudaDeviceSynchronize", at_ns);
  EXPECT_FALSE(is_captured());
  captured_stream();
  call("cudaEventSynchronize", at_ns + 2000, 0, 0, kEvent);
  EXPECT_FALSE(is_captured());
  captured_stream();
  call("cudaEventRecord", at_ns + 2000, 0x77, 0, kEvent + 1);
  call("cudaStreamWaitEvent", at_ns + 2100, kStream, 0, kEvent + 1);
  EXPECT_FALSE(is_captured());
  captured_stream();
  EXPECT_TRUE(is_captured()) << "it joins another capture";
}

TEST_F(CapturedCalls, OnesOfACaptureThatSeemsEndlessHaveNoEnd) {
  call("cudaStreamBeginCapture", 1000);
  launch("ncclAllReduce", CapturedStreams::kLongestNs + 2000);
  EXPECT_THAT(completions(), ElementsAre(Completion::kUnobserved));
}

TEST_F(CapturedCalls, ACaptureGoesOnWhereItsEndIsRefusedOrAWaitBeganBeforeIt) {
  call("cudaStreamBeginCapture", 1000);
  call("cudaStreamEndCapture", 2000, kStream, 903);
  call("cudaStreamEndCapture", 3000, kStream, 908);
  call("cudaStreamSynchronize", 500);
  call("cudaDeviceSynchronize", 500);
  launch("ncclAllReduce", 20'000);
  EXPECT_THAT(completions(), ElementsAre(Completion::kCaptured));
}

TEST_F(CapturedCalls, TheStreamOfEachThreadIsItsOwn) {
  constexpr uint64_t kPerThread = 2;
  st_sync other = synced("cudaStreamBeginCapture", 1000, 1010);
  other.stream = kPerThread;
  other.header.tid = kTid + 1;
  tracker_.on_sync(other);
  launch("ncclAllReduce", 2000, 0, kPerThread);
  call("cudaStreamBeginCapture_ptsz", 10'000, 0);
  launch("ncclAllReduce", 20'000, 1, kPerThread);
  launch("ncclAllReduce", 30'000, 2, 0);
  EXPECT_THAT(completions(), ElementsAre(Completion::kOpen, Completion::kCaptured, Completion::kOpen));
}

TEST_F(CapturedCalls, ACallThatIsRefusedWasNotCaptured) {
  call("cudaStreamBeginCapture", 1000);
  tracker_.on_entry(entry("ncclAllReduce", 2000));
  tracker_.on_return(returned("ncclAllReduce", 2000, 2100, 5));
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kCall);
  EXPECT_THAT(*sink_.graph_uses(), SizeIs(0));
}

TEST_F(CapturedCalls, LaunchesOfGraphsAreCounted) {
  call("cudaGraphLaunch", 1000, kStream, 0, 1);
  call("cudaGraphLaunch", 50'000, kStream, 0, 7);
  EXPECT_EQ(use().launches, 8);
  EXPECT_EQ(use().captured, 0);
  EXPECT_EQ(use().start_ns, 5);
  EXPECT_THAT(use().first_launch_ns, Optional(utc(1000)));
  EXPECT_THAT(use().last_launch_ns, Optional(utc(50'000)));
  call("cudaStreamBeginCapture", 60'000);
  call("cudaGraphLaunch", 70'000, kStream, 0, 1);
  EXPECT_EQ(use().launches, 8) << "a graph that becomes a part of another one";
}

TEST_F(CapturedCalls, WhatAProcessDidWithGraphsIsDeliveredAtItsEnd) {
  call("cudaGraphLaunch", 1000, kStream, 0, 3);
  EXPECT_THAT(*sink_.graph_uses(), SizeIs(0));
  tracker_.on_exit(kPid);
  ASSERT_THAT(*sink_.graph_uses(), SizeIs(1));
  EXPECT_EQ(sink_.graph_uses()->front().launches, 3);
}

}  // namespace
}  // namespace stalltrace::capture
