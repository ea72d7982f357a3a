// SPDX-License-Identifier: Apache-2.0
// One verdict of the stall search per row: the ranks' calls, and the decision about a part of one instance.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/stalls/find_stalls.h"
#include "analysis/testing/small_job.h"
#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

constexpr int64_t kStep = 50;  // the step that most rows change
constexpr int64_t kLast = kSteps - 1;
constexpr CommHash kOther = 78;
constexpr int64_t kUsualNs = 5 * kNsPerMs;  // transfer of a healthy step

/// Changes the calls of a healthy job; false drops one.
using Change = std::function<bool(int rank, int64_t step, Collective& call)>;

/// `rank` is late in one step, which delays all later ones.
Change late(int rank, int64_t at, int64_t by_ns) {
  return [=](int who, int64_t step, Collective& call) {
    call.timestamp_ns += step > at || (step == at && who == rank) ? by_ns : 0;
    return true;
  };
}

/// All ranks need longer for one step, which delays all later ones.
Change slow(int64_t at, int64_t by_ns) {
  return [=](int, int64_t step, Collective& call) {
    *call.duration_ns += step == at ? by_ns : 0;
    call.timestamp_ns += step > at ? by_ns : 0;
    return true;
  };
}

/// Only ranks 0 and 1: each step is a Send that comes `wait_ns` after its Recv.
Change pair(int64_t steps, int64_t wait_ns) {
  return [=](int rank, int64_t step, Collective& call) {
    call.op = rank == 0 ? Operation::kSend : Operation::kRecv;
    call.peer = 1 - rank;
    call.timestamp_ns += rank == 0 ? wait_ns : 0;
    return rank < 2 && step < steps;
  };
}

Ending calls(Change change) {
  Ending ending;
  ending.call = std::move(change);
  return ending;
}

Ending with_agents_until(Ending ending, int64_t end_ns) {
  ending.node = [=](int, Node& node) { node.ended_ns = end_ns; };
  return ending;
}

/// Rank 2 is killed 10 ms after the last arrival, the others fail soon after.
Ending broken_off() {
  Ending ending = hang();
  ending.process = [](int rank, Process& process) {
    if (rank == 2) {
      exit_at(process, kLastArrivalNs + 10 * kNsPerMs, 9);
    } else {
      fail_at(process, kLastArrivalNs + 200 * kNsPerMs);
    }
  };
  return ending;
}

Ending on_two_hosts(Ending ending) {
  ending.node = [](int rank, Node& node) { node.boot_id = rank < 2 ? "one boot" : "other boot"; };
  return ending;
}

struct Row {
  const char* name;
  Ending ending;
  StallPart part;
  VerdictReason reason;
  int64_t value_ns;
  int64_t limit_ns;
  int64_t step = kStep;
  TimeRange range = {};
  CommHash hash = kHash;
  std::vector<Collective> more = {};  // additional calls
};

/// The verdicts on one part of the instance, including parts that are no stalls.
std::vector<Verdict> verdicts_on(const Row& row) {
  MemorySource source;
  fill(source, row.ending);
  for (const Collective& call : row.more) {
    source.accept(call);
  }
  Cluster cluster = *Cluster::load(source);
  const Timeline timeline = *Timeline::load(source, cluster);
  const auto group = std::find_if(timeline.groups().begin(), timeline.groups().end(),
                                  [&](const Group& one) { return one.hash == row.hash; });
  const InstanceId id{static_cast<uint32_t>(group - timeline.groups().begin()), row.step};
  const StallSearch search =
      find_stalls(timeline, cluster, JobEnds::find(timeline, cluster, {}), {.range = row.range, .watched = id});
  std::vector<Verdict> verdicts;
  const auto add = [&](const Stall& stall) {
    if (stall.instance() == id && stall.part() == row.part) {
      verdicts.push_back(stall.verdict);
    }
  };
  std::for_each(search.stalls.begin(), search.stalls.end(), add);
  std::for_each(search.watched->declined.begin(), search.watched->declined.end(), add);
  return verdicts;
}

void expect_verdict(const Row& row) {
  SCOPED_TRACE(row.name);
  const std::vector<Verdict> verdicts = verdicts_on(row);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(to_text(verdicts[0].reason), to_text(row.reason));
  EXPECT_EQ(verdicts[0].value_ns, row.value_ns);
  EXPECT_EQ(verdicts[0].limit_ns, row.limit_ns);
}

/// From the middle arrival of the others (rank 1) to rank 3's arrival.
constexpr int64_t late_ns(int64_t by_ns) { return by_ns + 200 * kNsPerUs; }

TEST(Verdict, OnTheLatePart) {
  const Change vague = [](int rank, int64_t step, Collective& call) {
    call.op = step == 0 ? Operation::kAllReduce : Operation::kBroadcast;  // a Broadcast bounds no clock
    *call.duration_ns = step == 0 ? 40 * kNsPerMs : *call.duration_ns;
    return late(3, kStep, 40 * kNsPerMs)(rank, step, call);
  };
  const Change loose = [=](int rank, int64_t step, Collective& call) {
    const bool called = vague(rank, step, call);
    *call.duration_ns =
        step == 0 ? 20 * kNsPerMs : *call.duration_ns + (rank == 0 && step == kStep ? 40 * kNsPerMs : 0);
    return called;
  };
  const int64_t moved_ns = 100 * kNsPerUs;  // the apparent difference of the clocks
  const Change busy = [](int rank, int64_t step, Collective& call) {
    *call.duration_ns += rank == 3 && step == kStep - 1 ? 80 * kNsPerMs : 0;  // until 5 ms before its arrival
    return late(3, kStep, 40 * kNsPerMs)(rank, step, call);
  };
  const Change rooted = [](int rank, int64_t step, Collective& call) {
    call.op = Operation::kBroadcast;  // the root and the others are done 35 ms before rank 3 comes
    return late(3, kStep, 40 * kNsPerMs)(rank, step, call);
  };
  const Change awaited = [=](int rank, int64_t step, Collective& call) {
    *call.duration_ns += rank == 0 && step == kStep ? 40 * kNsPerMs : 0;  // the root is not
    return rooted(rank, step, call);
  };
  const int64_t late_40 = late_ns(40 * kNsPerMs);
  const int64_t pair_usual_ns = 30 * kNsPerMs - 100 * kNsPerUs;
  constexpr StallPart kLate = StallPart::kLate;
  const Row kRows[] = {
      {"late", calls(late(3, kStep, 40 * kNsPerMs)), kLate, VerdictReason::kTooLong, late_40, kStallFloorNs},
      {"short", calls(late(3, kStep, 5 * kNsPerMs)), kLate, VerdictReason::kBelowLimit, late_ns(5 * kNsPerMs),
       kStallFloorNs},
      {"warm-up", calls(late(3, 1, 40 * kNsPerMs)), kLate, VerdictReason::kWarmingUp, late_40, kWarmUpFloorNs, 1},
      {"long warm-up", calls(late(3, 1, 600 * kNsPerMs)), kLate, VerdictReason::kTooLong, late_ns(600 * kNsPerMs),
       kWarmUpFloorNs, 1},
      {"busy", calls(busy), kLate, VerdictReason::kInPreviousCall, 5 * kNsPerMs, kStallFloorNs},
      {"clocks", on_two_hosts(calls(vague)), kLate, VerdictReason::kClockUncertain, late_40 - moved_ns, kStallFloorNs},
      {"later than clocks are off", on_two_hosts(calls(loose)), kLate, VerdictReason::kTooLong, late_40 - moved_ns,
       kStallFloorNs},
      {"rooted", calls(rooted), kLate, VerdictReason::kNoRankWaited, late_40, kStallFloorNs},
      {"awaited root", calls(awaited), kLate, VerdictReason::kTooLong, late_40, kStallFloorNs},
      {"pair", calls(pair(kSteps, 30 * kNsPerMs)), kLate, VerdictReason::kPairUsual, pair_usual_ns,
       pair_usual_ns + pair_usual_ns / 2},
      {"few", calls(pair(6, 30 * kNsPerMs)), kLate, VerdictReason::kNoBaseline, pair_usual_ns, kNoBaselineFloorNs, 4},
      {"range",
       calls(late(3, kStep, 40 * kNsPerMs)),
       kLate,
       VerdictReason::kOutsideRange,
       late_40,
       kStallFloorNs,
       kStep,
       {kOriginNs, begin_of(kStep)}},
  };
  for (const Row& row : kRows) {
    expect_verdict(row);
  }
}

TEST(Verdict, OnTheTransfer) {
  const int64_t limit_ns = kUsualNs + kStallFloorNs;
  const Change odd = [](int rank, int64_t step, Collective& call) {
    call.bytes /= rank == 1 && step == kStep ? 2 : 1;
    return true;
  };
  const Change left_open = [](int rank, int64_t step, Collective& call) {
    if (rank == 1 && step == kStep) {
      leave_open(call);
    }
    return true;
  };
  const Change unobserved = [](int rank, int64_t step, Collective& call) {
    if (rank == 1 && step == kStep) {
      call.duration_ns.reset();
      call.completion = Completion::kUnobserved;
    }
    return true;
  };
  // Rank 3 is 90 ms late in an instance of another communicator, while the batch's other instance is open.
  std::vector<Collective> elsewhere;
  for (int rank = 0; rank < kRanks; ++rank) {
    elsewhere.push_back(call_of(rank, kStep, kOther));
    elsewhere.back().timestamp_ns += rank == 3 ? 90 * kNsPerMs : 0;
  }
  constexpr StallPart kTransfer = StallPart::kTransfer;
  const int64_t until_end_ns = kRecordedNs - (kLast * kStepNs + 300 * kNsPerUs);
  const int64_t end_ns = kLastArrivalNs + 300 * kNsPerUs + 400 * kNsPerMs;
  const int64_t others_late_ns = 90 * kNsPerMs;  // within the transfer
  const Row kRows[] = {
      {"slow", calls(slow(kStep, 200 * kNsPerMs)), kTransfer, VerdictReason::kTooLong, kUsualNs + 200 * kNsPerMs,
       limit_ns},
      {"ordinary", {}, kTransfer, VerdictReason::kBelowLimit, kUsualNs, limit_ns},
      {"warm-up", calls(slow(1, 200 * kNsPerMs)), kTransfer, VerdictReason::kWarmingUp, kUsualNs + 200 * kNsPerMs,
       kWarmUpFloorNs, 1},
      {"wrong data", calls(odd), kTransfer, VerdictReason::kWrongData, kUsualNs, limit_ns},
      {"others went on", calls(left_open), kTransfer, VerdictReason::kOthersWentOn,
       kRecordedNs - (kStep * kStepNs + 300 * kNsPerUs), kHangNs},
      {"elsewhere",
       calls(slow(kStep, 100 * kNsPerMs)),
       kTransfer,
       VerdictReason::kWaitedForLateRank,
       kUsualNs + 100 * kNsPerMs - others_late_ns,
       limit_ns,
       kStep,
       {},
       kHash,
       elsewhere},
      {"hang", hang(), kTransfer, VerdictReason::kHang, until_end_ns, kHangNs, kLast},
      {"short open", with_agents_until(hang(), end_ns), kTransfer, VerdictReason::kBelowLimit, 400 * kNsPerMs, kHangNs,
       kLast},
      {"broken off", broken_off(), kTransfer, VerdictReason::kEndedJob, 199'700 * kNsPerUs, kHangNs, kLast},
  };
  for (const Row& row : kRows) {
    expect_verdict(row);
  }
  const Row no_end{"unobserved", calls(unobserved), kTransfer, VerdictReason::kEndUnknown, 0, kHangNs};
  EXPECT_TRUE(verdicts_on(no_end).empty());  // a part without a length is not shown
}

/// One synchronisation ends `in_step` calls. In the step with this number rank 3 enters the last call `late_ns` after
/// the others, and the synchronisation takes `slow_ns` longer.
Change batches(int64_t in_step, int64_t number, int64_t late_ns, int64_t slow_ns) {
  return [=](int rank, int64_t step, Collective& call) {
    const int64_t last = (step / in_step + 1) * in_step - 1;
    const bool here = step / in_step == number;
    const int64_t before_ns = step / in_step > number ? late_ns + slow_ns : 0;
    call.timestamp_ns += before_ns + (here && step == last && rank == 3 ? late_ns : 0);
    call.duration_ns = begin_of(last) + before_ns + (here ? late_ns + slow_ns : 0) + kUsualNs - call.timestamp_ns;
    return true;
  };
}

TEST(Verdict, OnABatch) {
  constexpr int64_t kMany = 10;  // calls of a step: ten steps in all
  constexpr int64_t kFew = 20;   // five steps
  constexpr int64_t kTwo = 50;   // two, of which the first has no beginning
  constexpr int64_t kShort = kNoStepBaselineFloorNs - kNsPerSecond;
  constexpr int64_t kLong = kNoStepBaselineFloorNs + kNsPerSecond;
  constexpr StallPart kLate = StallPart::kLate;
  constexpr StallPart kTransfer = StallPart::kTransfer;
  constexpr VerdictReason kUnknown = VerdictReason::kStepUnknown;
  const int64_t transfer_ns = kUsualNs - 300 * kNsPerUs;  // after rank 3's arrival
  const Row kRows[] = {
      {"inside", calls(batches(kMany, 5, 0, 0)), kTransfer, VerdictReason::kInBatch, transfer_ns + 9 * kStepNs,
       transfer_ns + kStallFloorNs, 50},
      {"late inside", calls([=](int rank, int64_t step, Collective& call) {
         batches(kMany, 5, 0, 0)(rank, step, call);
         call.timestamp_ns += rank == 3 && step == kStep ? 40 * kNsPerMs : 0;
         *call.duration_ns -= rank == 3 && step == kStep ? 40 * kNsPerMs : 0;
         return true;
       }),
       kLate, VerdictReason::kInBatch, late_ns(40 * kNsPerMs), kStallFloorNs, 50},
      {"late", calls(batches(kMany, 5, 40 * kNsPerMs, 0)), kLate, VerdictReason::kTooLong, late_ns(40 * kNsPerMs),
       kStallFloorNs, 59},
      {"late in one of few", calls(batches(kFew, 2, kShort, 0)), kLate, kUnknown, late_ns(kShort),
       kNoStepBaselineFloorNs, 59},
      {"long late in one of few", calls(batches(kFew, 2, kLong, 0)), kLate, VerdictReason::kTooLong, late_ns(kLong),
       kStallFloorNs, 59},
      {"slow in one of few", calls(batches(kFew, 2, 0, kShort)), kTransfer, kUnknown, transfer_ns + kShort,
       kNoStepBaselineFloorNs, 59},
      {"long slow in one of few", calls(batches(kFew, 2, 0, kLong)), kTransfer, VerdictReason::kTooLong,
       transfer_ns + kLong, kNoBaselineFloorNs, 59},
      {"long late in the only one", calls(batches(kTwo, 1, kLong, 0)), kLate, VerdictReason::kTooLong, late_ns(kLong),
       kStallFloorNs, 99},
      {"long slow in the only one", calls(batches(kTwo, 1, 0, kLong)), kTransfer, kUnknown, transfer_ns + kLong,
       kNoStepBaselineFloorNs, 99},
      {"long late in the first", calls(batches(30, 0, kLong, 0)), kLate, kUnknown, late_ns(kLong),
       kNoStepBaselineFloorNs, 29},
  };
  for (const Row& row : kRows) {
    expect_verdict(row);
  }
}

TEST(Verdict, OnAMissingRank) {
  constexpr StallPart kAbsent = StallPart::kAbsent;
  const int64_t arrived_ns = kLastArrivalNs + 300 * kNsPerUs;  // rank 3
  const int64_t until_end_ns = kOriginNs + kRecordedNs - arrived_ns;
  // Arrivals always scatter by up to 600 ms, and rank 3 has been absent for 1.5 s.
  Ending scattered = hang({3});
  const auto hanging = scattered.call;
  scattered.call = [=](int rank, int64_t step, Collective& call) {
    call.timestamp_ns += rank == 3 ? 600 * kNsPerMs : 0;
    return hanging(rank, step, call);
  };
  const int64_t spread_ns = 600 * kNsPerMs + 300 * kNsPerUs;
  // Rank 2 is inside a call of another communicator that all have entered.
  std::vector<Collective> elsewhere;
  for (int rank = 0; rank < kRanks; ++rank) {
    elsewhere.push_back(call_of(rank, kLast, kOther));
    elsewhere.back().timestamp_ns -= 10 * kNsPerMs;
    leave_open(elsewhere.back());
  }
  Ending short_one = hang({2});
  short_one.node = [=](int rank, Node& node) {
    node.ended_ns = rank == 2 ? node.ended_ns : arrived_ns + 400 * kNsPerMs;
  };
  // All but rank 2 launch the last call; 1.5 s later their threads launch one on another communicator, 0.5 s before the
  // end.
  Ending launched = with_agents_until(hang({2}), arrived_ns + 2 * kNsPerSecond);
  launched.call = [](int rank, int64_t step, Collective& call) {
    if (step == kLast) {
      leave_open(call);
      call.launch_ns = 20 * kNsPerUs;
    }
    return step != kLast || rank != 2;
  };
  std::vector<Collective> later;
  for (const int rank : {0, 1, 3}) {
    later.push_back(call_of(rank, kLast, kOther));
    later.back().timestamp_ns = arrived_ns + 1500 * kNsPerMs;
    later.back().launch_ns = 20 * kNsPerUs;
    leave_open(later.back());
  }
  const Row kRows[] = {
      {"launching",
       launched,
       kAbsent,
       VerdictReason::kStillLaunching,
       2 * kNsPerSecond,
       kHangNs,
       kLast,
       {},
       kHash,
       later},
      {"absent", hang({2}), kAbsent, VerdictReason::kHang, until_end_ns, kHangNs, kLast},
      {"short", short_one, kAbsent, VerdictReason::kBelowLimit, 400 * kNsPerMs, kHangNs, kLast},
      {"scattered", with_agents_until(scattered, kLastArrivalNs + 200 * kNsPerUs + 1500 * kNsPerMs), kAbsent,
       VerdictReason::kMayStillCome, 1500 * kNsPerMs, kSpreadsToHang * (spread_ns + spread_ns / 2), kLast},
      {"elsewhere",
       hang({2}),
       kAbsent,
       VerdictReason::kHeldUpElsewhere,
       until_end_ns,
       kHangNs,
       kLast,
       {},
       kHash,
       elsewhere},
  };
  for (const Row& row : kRows) {
    expect_verdict(row);
  }
  const Row there{
      "there", hang({2}), StallPart::kTransfer, VerdictReason::kHang, until_end_ns + 10 * kNsPerMs, kHangNs, kLast, {},
      kOther,  elsewhere};
  expect_verdict(there);
}

TEST(Verdict, OnWhatHoldsUpAHangThoughItIsShortItself) {
  // Ranks 2 and 3 are missed for 2 s: they are in their own call, which rank 3 entered half a second ago.
  std::vector<Collective> own = {call_of(2, kLast, kOther), call_of(3, kLast, kOther)};
  own[1].timestamp_ns = kLastArrivalNs + 1500 * kNsPerMs;
  for (Collective& call : own) {
    leave_open(call);
  }
  const Ending two_seconds = with_agents_until(hang({2, 3}), kLastArrivalNs + 2000 * kNsPerMs);
  expect_verdict({"own",
                  two_seconds,
                  StallPart::kTransfer,
                  VerdictReason::kHang,
                  500 * kNsPerMs,
                  kNoBaselineFloorNs,
                  kLast,
                  {},
                  kOther,
                  own});
}

TEST(Verdict, OfAStallSaysWhatKindItIs) {
  const auto only_stall = [](const Ending& ending) {
    MemorySource source;
    fill(source, ending);
    Cluster cluster = *Cluster::load(source);
    const Timeline timeline = *Timeline::load(source, cluster);
    StallSearch search = find_stalls(timeline, cluster, JobEnds::find(timeline, cluster, {}), {});
    EXPECT_EQ(search.stalls.size(), 1U);
    return search.stalls.empty() ? Stall{} : search.stalls[0];
  };
  const Stall late_one = only_stall(calls(late(3, kStep, 40 * kNsPerMs)));
  ASSERT_TRUE(std::holds_alternative<LateArrival>(late_one.kind));
  EXPECT_EQ(std::get<LateArrival>(late_one.kind).calling_tid, 13);
  EXPECT_FALSE(late_one.hung());
  const Stall slow_one = only_stall(calls(slow(kStep, 200 * kNsPerMs)));
  ASSERT_TRUE(std::holds_alternative<SlowTransfer>(slow_one.kind));
  EXPECT_FALSE(slow_one.hung());
  EXPECT_EQ(slow_one.usual_ns, kUsualNs);
  EXPECT_EQ(slow_one.lost_ns, 200 * kNsPerMs);
  const Stall missing = only_stall(hang({2}));
  ASSERT_TRUE(std::holds_alternative<MissingRank>(missing.kind));
  EXPECT_EQ(missing.root().kind, HangKind::kOutside);
  EXPECT_EQ(missing.suspects, std::vector<MemberIndex>{missing.root().member});
  const Stall ended = only_stall(broken_off());
  ASSERT_TRUE(std::holds_alternative<SlowTransfer>(ended.kind));
  EXPECT_TRUE(ended.ended_job());
  EXPECT_EQ(ended.root().kind, HangKind::kDead);
}

}  // namespace
}  // namespace stalltrace::analysis
