// SPDX-License-Identifier: Apache-2.0
// Evidence made of the rows around the stalls is the evidence made of all rows.
#include "analysis/evidence/reads/evidence_reads.h"

#include <gtest/gtest.h>

#include <random>

#include "analysis/evidence/evidence.h"
#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

constexpr WaitKind kKinds[] = {WaitKind::kRunnable, WaitKind::kBlocked, WaitKind::kDisk, WaitKind::kStopped};

class RandomRows {
 public:
  explicit RandomRows(uint64_t seed) : random_(seed) {
    fill(source, {});
    connect(source);
    for (int64_t tenth = 0; tenth < 10 * kRecordedNs / kNsPerSecond; ++tenth) {
      add_around(kOriginNs + tenth * kNsPerSecond / 10);
    }
  }
  int64_t below(int64_t end) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(end)); }

  MemorySource source;

 private:
  void add_around(int64_t time_ns) {
    if (below(20) == 0) {
      TcpEvent event = event_of(1, TcpEventKind::kCongestionState, time_ns + below(kNsPerMs));
      event.cookie = kOut;
      event.state = static_cast<int32_t>(below(5));
      source.accept(event);
    }
    TcpSample sample = sample_of(1, kOut, time_ns + below(kNsPerMs));
    sample.ca_state = below(8) == 0 ? kCongestionRecovery : 0;
    sample.bytes_acked = static_cast<uint64_t>(time_ns - kOriginNs);
    source.accept(sample);
    const int rank = static_cast<int>(below(2));
    const int32_t pid = 10 + rank;
    WaitSpan wait{.node_id = node_of_rank(rank), .timestamp_ns = time_ns, .window_ns = below(2 * kNsPerSecond)};
    wait.waited_ns = wait.window_ns;
    wait.open = below(3) == 0;
    wait.kind = kKinds[below(4)];
    wait.pid = pid;
    wait.tid = pid + static_cast<int32_t>(below(3));
    wait.by_name = "other";
    wait.by_pid = pid + static_cast<int32_t>(below(4));
    source.accept(wait);
    if (wait.open && below(2) == 0) {  // the same wait, when it was over
      wait.open = false;
      wait.window_ns += below(kNsPerSecond);
      source.accept(wait);
    }
  }

  std::mt19937_64 random_;
};

struct NarrowlyLoaded {
  NarrowlyLoaded(EventSource& source, const std::vector<Interval>& windows) : cluster(*Cluster::load(source)) {
    EXPECT_TRUE(Timeline::load(source, cluster));
    flows = *Flows::load(source, cluster);
    evidence.emplace(*EvidenceStore::load(source, cluster, flows, windows));
  }
  Cluster cluster;
  Flows flows;
  std::optional<EvidenceStore> evidence;
};

/// Counts what passes.
class Counted final : public EventSource {
 public:
  explicit Counted(EventSource& source) : source_(source) {}
  Status read_state(AnyRows rows) override { return source_.read_state(rows); }
  Status read_stream(TimeRange range, AnyVisitor visitor) override {
    return std::visit(
        [&]<typename T>(const Visitor<T>* visit) {
          return source_.stream<T>(range, [&](const T& row) {
            ++rows_read;
            (*visit)(row);
          });
        },
        visitor);
  }
  int64_t rows_read = 0;

 private:
  EventSource& source_;
};

void expect_equal(const NarrowlyLoaded& all, const NarrowlyLoaded& narrow, const std::vector<Interval>& windows) {
  for (FlowIndex flow = 0; flow < all.flows.all().size(); ++flow) {
    EXPECT_EQ(all.evidence->samples(flow).size(), narrow.evidence->samples(flow).size());
    EXPECT_EQ(all.evidence->loss_intervals(flow).intervals(), narrow.evidence->loss_intervals(flow).intervals());
    EXPECT_EQ(all.evidence->recovery_intervals(flow).intervals(),
              narrow.evidence->recovery_intervals(flow).intervals());
  }
  for (MemberIndex member = 0; member < all.cluster.members().size(); ++member) {
    for (const WaitKind kind : kKinds) {
      for (const Interval& window : windows) {
        for (const Competitors which : {Competitors::kAll, Competitors::kOutsideJob}) {
          const WaitShare a = all.evidence->share(member, kind, window, which);
          const WaitShare b = narrow.evidence->share(member, kind, window, which);
          EXPECT_EQ(a.covered_ns, b.covered_ns);
          EXPECT_EQ(a.tid, b.tid);
          EXPECT_EQ(a.open, b.open);
          EXPECT_EQ(a.competitor_belongs, b.competitor_belongs);
        }
      }
    }
  }
}

TEST(NarrowedSource, GivesTheEvidenceOfAllRows) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    RandomRows rows(seed);
    std::vector<Interval> windows;
    for (int i = 0; i < 3; ++i) {
      const int64_t from_ns = kOriginNs + rows.below(kRecordedNs);
      windows.push_back({from_ns, from_ns + rows.below(kNsPerSecond) + 1});
    }
    Counted counted_all(rows.source);
    const NarrowlyLoaded all(counted_all, windows);
    const EvidenceReads reads = EvidenceReads::of(windows, all.cluster);
    std::map<NodeId, int64_t> shifts_ns;
    for (const Node& node : all.cluster.nodes()) {
      shifts_ns[node.node_id] = all.cluster.clock().shift_ns(node.node_id);
    }
    NarrowedSource narrowed(rows.source, reads.windows, shifts_ns);
    Counted counted_narrow(narrowed);
    const NarrowlyLoaded narrow(counted_narrow, windows);
    expect_equal(all, narrow, windows);
    EXPECT_LT(counted_narrow.rows_read, counted_all.rows_read);
  }
}

}  // namespace
}  // namespace stalltrace::analysis
