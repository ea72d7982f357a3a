// SPDX-License-Identifier: Apache-2.0
// Which calls bound the offset of two hosts' clocks: collectives, Sends with their Recvs.
#include "analysis/timeline/clock_offsets/clock_offsets.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "analysis/timeline/sequence_table.h"
#include "analysis/timeline/timeline.h"
#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

Node node_of(NodeId id, const std::string& boot, int64_t clock_offset_ns = 0) {
  return {.node_id = id, .name = "node" + std::to_string(id), .boot_id = boot, .clock_offset_ns = clock_offset_ns};
}

/// Two hosts with one rank each, and one call of `op` on both.
OffsetBounds bounds_of(Operation op, CommHash hash) {
  MemorySource source;
  for (NodeId id = 1; id <= 2; ++id) {
    source.accept(node_of(id, "boot" + std::to_string(id)));
  }
  Cluster cluster = *Cluster::load(source);
  std::vector<CallSequence> sequences;
  for (NodeId id = 1; id <= 2; ++id) {
    CallSequence sequence{.member = cluster.join(id, 10), .hash = hash};
    const int64_t arrival_ns = static_cast<int64_t>(id) * kNsPerSecond;
    sequence.calls.push_back(Call{arrival_ns, 1000, 0, Completion::kSync, true});
    sequences.push_back(std::move(sequence));
  }
  return bound_offsets(
      sequences, {CallSignature{.op = op}}, cluster, [](uint32_t) { return 0; }, [](uint32_t) { return true; });
}

TEST(BoundOffsets, OperationsThatSynchroniseBoundTheOffset) {
  const OffsetBounds bounds = bounds_of(Operation::kAllReduce, 7);
  ASSERT_EQ(bounds.hosts(), 2U);
  ASSERT_TRUE(bounds.bounds(1).known());
  EXPECT_EQ(bounds.bounds(1).low_ns, -kNsPerSecond - kNsPerMs);
  EXPECT_EQ(bounds.bounds(1).high_ns, -kNsPerSecond + kNsPerMs);
}

/// The difference of their clocks is unknown.
TEST(BoundOffsets, HostsThatOnlyBroadcastAreNotComparable) {
  const std::vector<Node> nodes{node_of(1, "boot1"), node_of(2, "boot2")};
  Clock clock = Clock::of(nodes);
  clock.align(nodes, bounds_of(Operation::kBroadcast, 7));
  EXPECT_FALSE(clock.comparable(1, 2));
  EXPECT_EQ(clock.notes().size(), 1U);
}

TEST(BoundOffsets, HostsThatShareOnlyUnknownCommunicatorsAreNotComparable) {
  const std::vector<Node> nodes{node_of(1, "boot1"), node_of(2, "boot2")};
  Clock clock = Clock::of(nodes);
  clock.align(nodes, bounds_of(Operation::kAllReduce, 0));
  EXPECT_FALSE(clock.comparable(1, 2));
  EXPECT_EQ(clock.shift_ns(2), 0);
  EXPECT_EQ(clock.notes().size(), 1U);
}

TEST(BoundOffsets, OthersAndUnknownCommunicatorsDoNot) {
  const OffsetBounds broadcast = bounds_of(Operation::kBroadcast, 7);  // the root may end before others arrive
  EXPECT_FALSE(broadcast.bounds(1).known());
  EXPECT_TRUE(broadcast.bounds(1).has_calls);
  EXPECT_TRUE(bounds_of(Operation::kAllReduce, 0).bounds(1).has_calls);
  EXPECT_FALSE(bounds_of(Operation::kAllReduce, 0).bounds(1).known());
}

/// Before the first bound and after the last one clocks may drift: the errors below are larger by that.
constexpr double kBesideBoundsNs = 12'000;
constexpr int64_t kAheadNs = 3 * kNsPerSecond;  // by which the clock of each host is ahead of that of the one before

/// A pipeline with a stage on each host: a micro batch every 20 ms, whose activations take 1 ms to the next stage, and
/// whose gradients take 3 ms back.
class Pipeline {
 public:
  explicit Pipeline(size_t hosts) {
    MemorySource source;
    for (NodeId id = 1; id <= hosts; ++id) {
      source.accept(node_of(id, "boot" + std::to_string(id)));
    }
    cluster_ = *Cluster::load(source);
    for (NodeId id = 1; id <= hosts; ++id) {
      members_.push_back(cluster_.join(id, 10));
    }
  }

  /// By how much the clock of a host is ahead of the first one's.
  [[nodiscard]] int64_t ahead_ns(size_t host, int64_t time_ns) const {
    const auto index = static_cast<int64_t>(host);
    return index * (ahead_each_ns + static_cast<int64_t>(drift * static_cast<double>(time_ns)));
  }
  void send(size_t from, size_t to) { add(from, to, from < to, false); }
  void recv(size_t from, size_t to) { add(to, from, from < to, true); }
  void both_ways(size_t from, size_t to) {
    send(from, to);
    recv(from, to);
    send(to, from);
    recv(to, from);
  }
  /// AllReduces that all hosts are in for 100 ms, as far as their threads can see.
  void all_reduce(Completion completion = Completion::kSync) {
    for (size_t host = 0; host < members_.size(); ++host) {
      CallSequence sequence{.member = members_[host], .hash = 8, .comm_rank = static_cast<int32_t>(host)};
      for (int64_t i = 0; i < calls; ++i) {
        const int64_t at_ns = begin_ns(i, true);
        const Call call{at_ns + ahead_ns(host, at_ns), us(100 * kNsPerMs), 0, completion, true};
        SequenceTable::insert(sequence, call, i);
      }
      sequences.push_back(std::move(sequence));
      keys_.push_back(~uint64_t{0});
    }
  }
  /// Adds a sequence of no group.
  void add_other(CallSequence sequence) {
    sequences.push_back(std::move(sequence));
    keys_.push_back(~uint64_t{0});
  }
  OffsetBounds bounds() {
    return bound_offsets(
        sequences,
        {{.op = Operation::kAllReduce}, {.op = Operation::kSend, .bytes = 64}, {.op = Operation::kSend, .bytes = 65}},
        cluster_, [this](uint32_t sequence) { return keys_[sequence]; },
        [this](uint32_t sequence) { return !uncounted || *uncounted != sequence; });
  }
  Clock aligned() {
    const OffsetBounds found = bounds();
    cluster_.align(found);
    return cluster_.clock();
  }
  /// Each clock was measured, to within an error of this.
  void measure(int64_t error_ns) {
    std::vector<MeasuredClock> clocks;
    for (size_t host = 0; host < members_.size(); ++host) {
      clocks.push_back(
          {.node_id = static_cast<NodeId>(host + 1), .offset_ns = ahead_ns(host, 0), .error_ns = error_ns});
    }
    cluster_.set_measured_clocks(std::move(clocks));
  }
  /// True if the correction is within the error that is given, whenever a micro batch began.
  [[nodiscard]] bool holds(const OffsetBounds& found, size_t host) const {
    const CorrectionLine line = found.offset(host);
    for (int64_t i = 0; i < calls; ++i) {
      if (std::abs(line.at(begin_ns(i, true)) + ahead_ns(host, begin_ns(i, true))) > line.error_ns) {
        return false;
      }
    }
    return true;
  }

  int64_t calls = 100;
  int64_t ahead_each_ns = kAheadNs;
  double drift = 0;
  CommHash hash = 7;
  Library library = Library::kNccl;
  std::optional<uint32_t> uncounted;  // the sequence that is not known to be counted from its start
  Completion recv_completion = Completion::kProfiler;
  std::vector<CallSequence> sequences;

 private:
  static int64_t begin_ns(int64_t micro_batch, bool forward) {
    return kNsPerSecond + 20 * kNsPerMs * micro_batch + (forward ? 0 : 10 * kNsPerMs);
  }
  static uint32_t us(int64_t time_ns) { return static_cast<uint32_t>(time_ns / kNsPerUs); }

  /// A Recv is called 1 ms before its Send.
  void add(size_t host, size_t peer, bool forward, bool receives) {
    const int64_t takes_ns = receives ? (forward ? 2 : 4) * kNsPerMs : 0;
    CallSequence sequence{.member = members_[host], .hash = hash, .comm_rank = static_cast<int32_t>(host)};
    sequence.point_to_point = true;
    sequence.receives = receives;
    sequence.library = library;
    for (int64_t i = 0; i < calls; ++i) {
      const int64_t at_ns = begin_ns(i, forward) - (receives ? kNsPerMs : 0);
      Call call{at_ns + ahead_ns(host, at_ns), us(takes_ns), 1, Completion::kProfiler, true};
      call.completion = receives ? recv_completion : call.completion;
      SequenceTable::insert(sequence, call, i);
    }
    sequences.push_back(std::move(sequence));
    keys_.push_back(receives ? peer << 8 | host : host << 8 | peer);
  }

  Cluster cluster_;
  std::vector<MemberIndex> members_;
  std::vector<uint64_t> keys_;  // by sequence
};

/// The rows of the first calls were lost, and the others are numbered from 0.
void lose_first(CallSequence& sequence, int64_t calls) {
  sequence.calls.erase(sequence.calls.begin(), sequence.calls.begin() + calls);
  sequence.last_ended_seq -= calls;
}

void lose_last(CallSequence& sequence, int64_t calls) {
  sequence.calls.erase(sequence.calls.end() - calls, sequence.calls.end());
  sequence.last_ended_seq -= calls;
}

TEST(ClocksBySends, TrafficBothWaysAlignsHosts) {
  Pipeline job(2);
  job.both_ways(0, 1);
  const OffsetBounds bounds = job.bounds();
  EXPECT_EQ(bounds.bounds(1).low_ns, -kAheadNs - kNsPerMs);
  EXPECT_EQ(bounds.bounds(1).high_ns, -kAheadNs + 3 * kNsPerMs);
  EXPECT_TRUE(job.holds(bounds, 1));
  const Clock clock = job.aligned();
  EXPECT_EQ(clock.shift_ns(2), -kAheadNs + kNsPerMs);
  EXPECT_NEAR(static_cast<double>(*clock.error_ns(2)), 2e6, kBesideBoundsNs);
  EXPECT_TRUE(clock.comparable(1, 2));
}

TEST(ClocksBySends, OneWayBoundsOneSide) {
  Pipeline job(2);
  job.send(0, 1);
  job.recv(0, 1);
  const OffsetBounds bounds = job.bounds();
  EXPECT_EQ(bounds.bounds(1).low_ns, -kAheadNs - kNsPerMs);
  EXPECT_FALSE(bounds.bounds(1).known());
  EXPECT_FALSE(job.aligned().comparable(1, 2));
}

TEST(ClocksBySends, NarrowWhatCollectivesBoundLoosely) {
  Pipeline job(2);
  job.all_reduce();
  EXPECT_NEAR(static_cast<double>(job.bounds().offset(1).error_ns), 100e6, kBesideBoundsNs);
  job.send(0, 1);
  job.recv(0, 1);
  EXPECT_NEAR(static_cast<double>(job.bounds().offset(1).error_ns), 50.5e6, kBesideBoundsNs);
  EXPECT_TRUE(job.holds(job.bounds(), 1));
  job.send(1, 0);
  job.recv(1, 0);
  EXPECT_NEAR(static_cast<double>(job.bounds().offset(1).error_ns), 2e6, kBesideBoundsNs);
  EXPECT_TRUE(job.holds(job.bounds(), 1));
}

TEST(ClocksBySends, AddUpOverTheHostsOfAPipeline) {
  Pipeline job(4);
  for (size_t host = 0; host < 3; ++host) {
    job.both_ways(host, host + 1);
  }
  const OffsetBounds bounds = job.bounds();
  for (size_t host = 1; host < 4; ++host) {
    ASSERT_TRUE(bounds.bounds(host).known()) << host;
    EXPECT_NEAR(static_cast<double>(bounds.offset(host).error_ns), static_cast<double>(host) * 2e6,
                static_cast<double>(host) * kBesideBoundsNs);
    EXPECT_TRUE(job.holds(bounds, host)) << host;
  }
}

TEST(ClocksBySends, DriftIsWithinTheErrorThatIsGiven) {
  Pipeline job(2);
  job.calls = 5000;  // 100 s
  job.drift = 50e-6;
  job.both_ways(0, 1);
  const OffsetBounds bounds = job.bounds();
  ASSERT_TRUE(bounds.bounds(1).known());
  EXPECT_GT(bounds.bounds(1).low_ns, bounds.bounds(1).high_ns) << "no one offset fits";
  EXPECT_TRUE(bounds.offset(1).fits);
  EXPECT_NEAR(bounds.offset(1).rate, -50e-6, 5e-6);
  EXPECT_LT(bounds.offset(1).error_ns, 2'100 * kNsPerUs);
  EXPECT_TRUE(job.holds(bounds, 1));
}

/// The clock of the host that times transfers is farther off than the job is long: they have slices all the same.
TEST(ClocksBySends, DriftIsFoundOverAHostThatIsFarOff) {
  Pipeline job(3);
  job.calls = 5000;  // 100 s
  job.drift = 50e-6;
  job.ahead_each_ns = 1000 * kNsPerSecond;
  job.both_ways(0, 1);
  job.both_ways(1, 2);
  const OffsetBounds bounds = job.bounds();
  ASSERT_TRUE(bounds.bounds(2).known());
  EXPECT_TRUE(bounds.offset(2).fits);
  EXPECT_NEAR(bounds.offset(2).rate, -100e-6, 50e-6);
  EXPECT_LT(bounds.offset(2).error_ns, 5 * kNsPerMs);
  EXPECT_TRUE(job.holds(bounds, 2));
}

/// Another job on the reference's host goes on for an hour: nothing of it is to be ordered with the other host's calls.
TEST(BoundOffsets, CallsOfOneHostAloneDoNotLengthenTheJob) {
  Pipeline job(2);
  job.both_ways(0, 1);
  const OffsetBounds alone = job.bounds();
  for (const CommHash hash : {CommHash{0}, CommHash{9}}) {
    CallSequence other{.member = job.sequences[0].member, .hash = hash};
    for (int64_t i = 0; i < 3600; ++i) {
      SequenceTable::insert(other, Call{i * kNsPerSecond, 1000, 0, Completion::kProfiler, true}, i);
    }
    job.add_other(std::move(other));
  }
  const OffsetBounds bounds = job.bounds();
  EXPECT_EQ(bounds.span(), alone.span());
  EXPECT_EQ(bounds.offset(1).error_ns, alone.offset(1).error_ns);
}

TEST(ClocksBySends, DriftAddsUpOverTheHostsOfAPipeline) {
  Pipeline job(4);
  job.calls = 10'000;  // 200 s
  job.drift = 30e-6;
  for (size_t host = 0; host < 3; ++host) {
    job.both_ways(host, host + 1);
  }
  const OffsetBounds bounds = job.bounds();
  for (size_t host = 1; host < 4; ++host) {
    ASSERT_TRUE(bounds.bounds(host).known()) << host;
    EXPECT_NEAR(bounds.offset(host).rate, static_cast<double>(host) * -30e-6, 10e-6) << host;
    EXPECT_TRUE(job.holds(bounds, host)) << host;
  }
}

TEST(ClocksBySends, TimesOfAClockThatDriftsAreMovedByTheRate) {
  Pipeline job(2);
  job.calls = 5000;
  job.drift = 50e-6;
  job.all_reduce();
  job.both_ways(0, 1);
  const Clock clock = job.aligned();
  for (const int64_t since_s : {1, 50, 100}) {
    const int64_t true_ns = since_s * kNsPerSecond;
    const int64_t common_ns = clock.to_common(2, true_ns + job.ahead_ns(1, true_ns));
    EXPECT_LE(std::abs(common_ns - true_ns), *clock.error_ns(2)) << since_s;
    EXPECT_NEAR(static_cast<double>(common_ns - true_ns), 1e6, 1e5) << "the middle of -1 and 3 ms, at all times";
    EXPECT_NEAR(static_cast<double>(clock.from_common(2, common_ns)),
                static_cast<double>(true_ns + job.ahead_ns(1, true_ns)), 1);
  }
}

/// The ends of the AllReduces show where between these bounds it is; they prove nothing.
TEST(ClocksByEnds, ReportedEndsOfCollectivesChooseBetweenTheBounds) {
  Pipeline job(2);
  job.calls = 5000;
  job.drift = 50e-6;
  job.all_reduce(Completion::kProfiler);
  job.both_ways(0, 1);
  const Clock clock = job.aligned();
  for (const int64_t since_s : {1, 50, 100}) {
    const int64_t true_ns = since_s * kNsPerSecond;
    const int64_t common_ns = clock.to_common(2, true_ns + job.ahead_ns(1, true_ns));
    EXPECT_NEAR(static_cast<double>(common_ns - true_ns), 0, 20.0 * kNsPerUs) << since_s;
    EXPECT_GE(*clock.error_ns(2), 3 * kNsPerMs) << "the farther bound";
    EXPECT_LE(*clock.error_ns(2), 3 * kNsPerMs + 30 * kNsPerUs);
    EXPECT_EQ(clock.source(2), ClockSource::kEnds);
  }
}

TEST(ClocksBySends, AKernelThatBeganLaterThanTheCallBoundsMoreTightly) {
  Pipeline job(2);
  job.both_ways(0, 1);
  CallSequence& sends = job.sequences[0];
  for (Call& call : sends.calls) {  // the CPU runs ahead
    call.arrival_ns -= 15 * kNsPerMs;
  }
  EXPECT_EQ(job.bounds().bounds(1).low_ns, -kAheadNs - 16 * kNsPerMs);
  sends.queued_us.assign(sends.calls.size(), 15'000);
  EXPECT_EQ(job.bounds().bounds(1).low_ns, -kAheadNs - kNsPerMs);
}

TEST(ClocksBySends, NumbersThatAreNotThoseOfOneOrderBoundNothing) {
  for (const bool by_library : {false, true}) {
    Pipeline job(2);
    job.library = by_library ? Library::kMpi : Library::kNccl;
    job.hash = by_library ? 7 : 0;  // 0: made before tracing began
    job.both_ways(0, 1);
    EXPECT_FALSE(job.bounds().bounds(1).known()) << by_library;
  }
}

TEST(ClocksBySends, SizesThatDifferShowThatNumbersDoNotMatch) {
  Pipeline job(2);
  job.send(0, 1);
  job.recv(0, 1);
  for (size_t i = 0; i < job.sequences[0].calls.size(); i += 2) {
    job.sequences[0].calls[i].signature = 2;
    job.sequences[1].calls[i].signature = 2;
  }
  EXPECT_EQ(job.bounds().bounds(1).low_ns, -kAheadNs - kNsPerMs);
  lose_first(job.sequences[0], 1);
  lose_last(job.sequences[1], 1);  // so that no Send seems to be missing
  EXPECT_EQ(job.bounds().bounds(1).low_ns, OffsetBounds::Range{}.low_ns);
}

/// The CPU calls 17 ms before its device sends, and the last Recv has not ended, so that no Send seems to be missing.
/// The numbers of the others are 1 too low: a Send seems to begin 3 ms later than it did.
TEST(ClocksBySends, LostFirstSendsMakeNoFalseBound) {
  Pipeline job(2);
  job.both_ways(0, 1);
  for (Call& call : job.sequences[0].calls) {
    call.arrival_ns -= 17 * kNsPerMs;
  }
  lose_first(job.sequences[0], 1);
  lose_last(job.sequences[1], 1);
  ASSERT_TRUE(job.bounds().bounds(1).known());
  ASSERT_FALSE(job.holds(job.bounds(), 1)) << "numbers alone don't show it";
  for (const uint32_t uncounted : {0U, 1U}) {
    job.uncounted = uncounted;
    EXPECT_FALSE(job.bounds().bounds(1).known());
  }
}

/// As after a gap of numbers. What shows that the numbers don't match may be in the other part.
TEST(ClocksBySends, SequencesInPartsBoundNothing) {
  Pipeline job(2);
  job.both_ways(0, 1);
  ASSERT_TRUE(job.bounds().bounds(1).known());
  job.send(0, 1);
  EXPECT_EQ(job.bounds().bounds(1).low_ns, OffsetBounds::Range{}.low_ns);
}

/// Two ranks of different hosts send to each other. `without`: the rank whose communicator's creation was not recorded.
bool comparable_by_sends(std::optional<int32_t> without, const std::optional<Loss>& loss, int64_t first_seq = 0) {
  constexpr CommHash kName = 7;
  MemorySource source;
  for (int32_t rank = 0; rank < 2; ++rank) {
    const auto node = static_cast<NodeId>(rank + 1);
    source.accept(node_of(node, "boot" + std::to_string(node)));
    Collective row{.node_id = node, .timestamp_ns = kNsPerSecond};
    row.pid = 10;
    row.comm_ptr = 5;
    row.comm_id_hash = kName;
    row.completion = Completion::kCall;
    row.duration_ns = kNsPerMs;
    row.rank = rank;
    row.nranks = 2;
    EventId event = rank * 1000 + 1;
    for (int64_t i = 0; i < 20; ++i) {
      for (const Operation op : {Operation::kSend, Operation::kRecv}) {
        row.event_id = event++;
        row.timestamp_ns = (2 + i) * kNsPerSecond;
        row.op = op;
        row.peer = 1 - rank;
        row.seq = first_seq + i;
        source.accept(row);
      }
    }
    if (without != rank) {
      row.event_id = event++;
      row.timestamp_ns = kNsPerSecond;
      row.op = Operation::kCommInitRank;
      row.peer.reset();
      row.seq.reset();
      source.accept(row);
    }
  }
  if (loss) {
    source.accept(*loss);
  }
  Cluster cluster = *Cluster::load(source);
  EXPECT_TRUE(Timeline::load(source, cluster));
  return cluster.clock().comparable(1, 2);
}

TEST(ClocksBySends, CountOnlyWhereAllOfThemAreSurelyRecorded) {
  EXPECT_TRUE(comparable_by_sends(std::nullopt, std::nullopt));
  EXPECT_TRUE(comparable_by_sends(std::nullopt, Loss{2, "ring:network", 4}));
  EXPECT_FALSE(comparable_by_sends(0, std::nullopt));
  EXPECT_FALSE(comparable_by_sends(1, std::nullopt));
  EXPECT_FALSE(comparable_by_sends(std::nullopt, std::nullopt, 2));
  for (const NodeId node : {1, 2}) {
    for (const char* source : {"ring:collective", "share:peer:1000", "state:sequence"}) {
      EXPECT_FALSE(comparable_by_sends(std::nullopt, Loss{node, source, 4})) << source;
    }
  }
}

TEST(ClocksBySends, ThatContradictMeasuredClocksAreNotBelieved) {
  Pipeline job(2);
  job.send(0, 1);
  job.recv(0, 1);
  for (Call& call : job.sequences[0].calls) {
    call.arrival_ns += 50 * kNsPerMs;
  }
  job.measure(kNsPerMs / 2);
  const OffsetBounds bounds = job.bounds();
  ASSERT_TRUE(bounds.bounds(1).known());
  EXPECT_EQ(bounds.offset(1).error_ns, kNsPerMs);
  EXPECT_TRUE(job.holds(bounds, 1));
}

TEST(ClocksBySends, ThatContradictCollectivesAreNotBelieved) {
  Pipeline job(2);
  job.all_reduce();
  const int64_t error_ns = job.bounds().offset(1).error_ns;
  job.send(0, 1);
  job.recv(0, 1);
  lose_first(job.sequences[2], 10);
  lose_last(job.sequences[3], 10);
  const OffsetBounds bounds = job.bounds();
  EXPECT_EQ(bounds.offset(1).error_ns, error_ns);
  EXPECT_TRUE(job.holds(bounds, 1));
}

TEST(ClocksBySends, ThatContradictEachOtherAreNotBelieved) {
  Pipeline job(2);
  job.both_ways(0, 1);
  lose_first(job.sequences[0], 1);
  lose_last(job.sequences[1], 1);
  EXPECT_FALSE(job.bounds().bounds(1).known());
}

TEST(ClocksBySends, EndsThatAreNotKnownToBeTheCallsOwnBoundNothing) {
  for (const Completion completion : {Completion::kNetwork, Completion::kUnobserved}) {
    Pipeline job(2);
    job.recv_completion = completion;
    job.both_ways(0, 1);
    EXPECT_FALSE(job.bounds().bounds(1).known());
  }
  Pipeline job(2);
  job.both_ways(0, 1);
  for (CallSequence& sequence : job.sequences) {
    for (Call& call : sequence.calls) {
      call.completion = Completion::kOpen;
      call.duration_us = kOpenDuration;
    }
  }
  EXPECT_FALSE(job.bounds().bounds(1).known());
}

}  // namespace
}  // namespace stalltrace::analysis
