// SPDX-License-Identifier: Apache-2.0
// Rows to call sequences: order, gaps, sequences after large gaps, and the bound on padding for lost rows.
#include "analysis/timeline/sequence_table.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kMaxGap = 1 << 16;
constexpr int64_t kFreePadding = 1 << 20;

class Sequences : public testing::Test {
 protected:
  Sequences() {
    source_.accept(Node{.node_id = 1, .name = "node"});
    cluster_ = *Cluster::load(source_);
    table_.emplace(sequences_, *cluster_);
  }

  static Collective row(int64_t seq, CommHash comm = 7) {
    Collective row{.node_id = 1, .seq = seq, .comm_id_hash = comm, .pid = 10};
    row.timestamp_ns = kNsPerSecond + seq * kNsPerMs;
    return row;
  }
  /// The sequence that the row was added to; null if it was left out.
  CallSequence* add(const Collective& row, int64_t rows = 0) {
    CallSequence* sequence = table_->find(row, rows);
    if (sequence != nullptr) {
      SequenceTable::insert(*sequence, Call{row.timestamp_ns, 1000, 0, Completion::kSync, true}, row.seq);
    }
    return sequence;
  }
  [[nodiscard]] std::vector<bool> present(size_t sequence) const {
    std::vector<bool> present;
    for (const Call& call : sequences_[sequence].calls) {
      present.push_back(call.present);
    }
    return present;
  }

  MemorySource source_;
  std::optional<Cluster> cluster_;
  std::vector<CallSequence> sequences_;
  std::optional<SequenceTable> table_;
};

TEST_F(Sequences, RowsOutOfOrderAreSorted) {
  for (const int64_t seq : {5, 6, 3, 4, 8}) {
    ASSERT_NE(add(row(seq)), nullptr);
  }
  ASSERT_EQ(sequences_.size(), 1U);
  EXPECT_EQ(sequences_[0].first_seq, 3);
  EXPECT_EQ(present(0), (std::vector<bool>{true, true, true, true, false, true}));  // 7 was lost
  EXPECT_EQ(sequences_[0].call_at(7), nullptr);
  EXPECT_EQ(sequences_[0].call_at(8)->arrival_ns, row(8).timestamp_ns);
  EXPECT_EQ(sequences_[0].first_arrival_ns, row(3).timestamp_ns);
  EXPECT_EQ(sequences_[0].last_arrival_ns, row(8).timestamp_ns);
  EXPECT_EQ(sequences_[0].last_ended_seq, 8);
}

TEST_F(Sequences, CommunicatorsAndPeersAreApart) {
  add(row(0));
  add(row(0, 8));
  Collective send = row(0);
  send.op = Operation::kSend;
  send.peer = 1;
  add(send);
  Collective receive = send;
  receive.op = Operation::kRecv;
  add(receive);
  ASSERT_EQ(sequences_.size(), 4U);
  EXPECT_FALSE(sequences_[1].point_to_point);
  EXPECT_TRUE(sequences_[2].point_to_point && !sequences_[2].receives);
  EXPECT_TRUE(sequences_[3].receives);
}

TEST_F(Sequences, BehindALargeGapANewPieceBegins) {
  add(row(0));
  add(row(1));
  add(row(2 + kMaxGap));  // the largest gap that is padded
  ASSERT_EQ(sequences_.size(), 1U);
  EXPECT_EQ(static_cast<int64_t>(sequences_[0].calls.size()), kMaxGap + 3);
  const int64_t far = 10 * kMaxGap;
  add(row(far));
  ASSERT_EQ(sequences_.size(), 2U);
  EXPECT_EQ(sequences_[1].first_seq, far);
  EXPECT_EQ(sequences_[1].calls.size(), 1U);
  add(row(2));  // an old row goes to the piece that it fits
  EXPECT_NE(sequences_[0].call_at(2), nullptr);
  table_->mark_continued();
  EXPECT_TRUE(sequences_[0].continued);
  EXPECT_FALSE(sequences_[1].continued);
}

TEST_F(Sequences, PaddingIsBoundedByTheRowsThereAre) {
  int64_t seq = 0;
  add(row(seq));
  while (sequences_.size() == 1) {  // each row allows one call; in addition, kFreePadding are free
    seq += kMaxGap;
    ASSERT_NE(add(row(seq)), nullptr);
    ASSERT_LE(seq, 2 * kFreePadding);
  }
  EXPECT_LE(static_cast<int64_t>(sequences_[0].calls.size()), kFreePadding + kFreePadding / kMaxGap + 1);
  EXPECT_GE(static_cast<int64_t>(sequences_[0].calls.size()), kFreePadding - kMaxGap);
}

TEST_F(Sequences, NumbersThatFitNowhereAreCountedOnceThePiecesAreUsedUp) {
  constexpr int64_t kMaxPieces = 64;
  for (int64_t piece = 0; piece < kMaxPieces; ++piece) {
    ASSERT_NE(add(row(piece * 2 * kMaxGap)), nullptr);
  }
  EXPECT_EQ(static_cast<int64_t>(sequences_.size()), kMaxPieces);
  EXPECT_EQ(add(row(1000 * kMaxGap)), nullptr);
  EXPECT_EQ(table_->skipped(), 1);
  EXPECT_NE(add(row(1)), nullptr);  // those that fit a piece still go there
}

}  // namespace
}  // namespace stalltrace::analysis
