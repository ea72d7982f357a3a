// SPDX-License-Identifier: Apache-2.0
// The indexes find the same as a search through all rows.
#include "blackbox/pairing/pending_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "base/clock.h"

namespace stalltrace::blackbox {
namespace {

constexpr int64_t kPendingBegin = 1'800'000'000LL * kNsPerSecond;
constexpr uint64_t kPendingPointer = 0xc0;
constexpr uint64_t kPendingSerial = 1;
constexpr uint64_t kPendingHash = 0xabc;

Collective call(EventId event, int64_t start_ns, int64_t number) {
  Collective row;
  row.event_id = event;
  row.timestamp_ns = row.called_ns = start_ns;
  row.launch_ns = 20 * kNsPerUs;
  row.seq = number;
  row.comm_ptr = kPendingPointer;
  row.comm_id_hash = 0x1d;
  row.tid = 71;
  return row;
}

Collective in_file(Collective row) {
  row.comm_ptr = kPendingSerial;
  row.comm_id_hash = kPendingHash;
  return row;
}

void make_communicator(CommunicatorIdentity& identity, uint64_t pointer, uint64_t serial, uint64_t hash) {
  identity.accept_probed(Communicator{.comm_ptr = pointer, .comm_id_hash = 0x1d, .nccl_comm_hash = hash});
  identity.accept_profiled(Communicator{.comm_ptr = serial, .comm_id_hash = hash, .nccl_comm_hash = hash});
}

/// Searches by comparison with every row.
const Collective* search_all(const std::vector<Collective>& rows, const Collective& profiled,
                             const CommunicatorIdentity& identity) {
  const Collective* best = nullptr;
  int best_score = -1;
  for (const Collective& row : rows) {
    if (const auto score = agreement(row, profiled, identity); score && *score > best_score) {
      best = &row;
      best_score = *score;
    }
  }
  return best;
}

TEST(PendingCalls, FindsWhatASearchThroughAllRowsFinds) {
  std::mt19937 random(7);
  const auto one_of = [&](int64_t count) { return static_cast<int64_t>(random() % static_cast<uint64_t>(count)); };
  constexpr std::array kOperations{Operation::kAllReduce, Operation::kSend, Operation::kRecv, Operation::kBroadcast};
  for (int repetition = 0; repetition < 20; ++repetition) {
    CommunicatorIdentity identity;
    make_communicator(identity, kPendingPointer, kPendingSerial, kPendingHash);
    make_communicator(identity, kPendingPointer + 1, kPendingSerial + 1, kPendingHash + 1);
    identity.accept_probed(Communicator{.comm_ptr = kPendingPointer + 2});  // known only by its calls
    PendingCalls pending;
    std::vector<Collective> rows;
    for (int64_t n = 0; n < 400; ++n) {
      Collective row =
          call(static_cast<EventId>(n + 1), kPendingBegin + n * 30 * kNsPerUs + one_of(60) * kNsPerUs, one_of(60));
      row.op = kOperations[static_cast<size_t>(one_of(kOperations.size()))];
      row.peer = is_point_to_point(row.op) ? std::optional(static_cast<int32_t>(one_of(3))) : std::nullopt;
      row.comm_ptr = kPendingPointer + static_cast<uint64_t>(one_of(3));
      row.comm_id_hash = row.comm_ptr == kPendingPointer + 2 ? 0 : row.comm_id_hash;
      row.tid += static_cast<int32_t>(one_of(2));
      row.launch_ns = one_of(10) == 0   ? std::nullopt
                      : one_of(10) == 0 ? std::optional(one_of(5) * kNsPerMs)
                                        : std::optional(one_of(40) * kNsPerUs);
      rows.push_back(row);
      pending.put(row, false);
    }
    for (int question = 0; question < 500; ++question) {
      Collective asked = in_file(rows[static_cast<size_t>(one_of(400))]);
      asked.comm_ptr = kPendingSerial + static_cast<uint64_t>(one_of(2));
      asked.comm_id_hash = kPendingHash + asked.comm_ptr - kPendingSerial;
      asked.timestamp_ns += one_of(50) * kNsPerUs;
      asked.tid = one_of(3) == 0 ? 0 : asked.tid;
      asked.seq = one_of(4) == 0 ? std::optional(one_of(60)) : asked.seq;
      const Collective* expected = search_all(rows, asked, identity);
      const Collective* found = pending.match(asked, identity);
      ASSERT_EQ(found == nullptr, expected == nullptr);
      if (found != nullptr) {
        EXPECT_EQ(agreement(*found, asked, identity), agreement(*expected, asked, identity));
      }
    }
  }
}

TEST(PendingCalls, ATakenOrReplacedRowIsNotFoundByItsOldNumberOrTime) {
  CommunicatorIdentity identity;
  make_communicator(identity, kPendingPointer, kPendingSerial, kPendingHash);
  PendingCalls pending;
  pending.put(call(1, kPendingBegin, 5), false);
  pending.put(call(1, kPendingBegin + kNsPerSecond, 6), false);
  EXPECT_EQ(pending.match(in_file(call(0, kPendingBegin, 5)), identity), nullptr);
  ASSERT_NE(pending.match(in_file(call(0, kPendingBegin + kNsPerSecond, 6)), identity), nullptr);
  EXPECT_EQ(pending.take(1).seq, 6);
  EXPECT_EQ(pending.match(in_file(call(0, kPendingBegin + kNsPerSecond, 6)), identity), nullptr);
  EXPECT_EQ(pending.size(), 0);
}

TEST(PendingCalls, ATransferBelongsToTheCallThatLaunchesIt) {
  PendingCalls pending;
  for (EventId event = 1; event <= 3; ++event) {
    Collective whole = call(event, kPendingBegin + static_cast<int64_t>(event) * kNsPerMs, 0);
    whole.op = Operation::kAllToAll;
    pending.put(whole, false);
  }
  Collective part = in_file(call(0, kPendingBegin + 2 * kNsPerMs + 10 * kNsPerUs, 0));
  part.op = Operation::kSend;
  ASSERT_NE(pending.parent(part), nullptr);
  EXPECT_EQ(pending.parent(part)->event_id, 2);
  part.tid += 1;
  EXPECT_EQ(pending.parent(part), nullptr) << "another thread's";
}

TEST(PendingCalls, KeepsMoreOfAFasterProcess) {
  struct Case {
    int64_t apart_ns;
    size_t kept;
  };
  for (const Case& given : {Case{10 * kNsPerMs, kFewestRows}, Case{100 * kNsPerUs, 20'001}, Case{10'000, kMostRows}}) {
    PendingCalls pending;
    for (int64_t n = 0; n < 40'000; ++n) {
      pending.put(call(static_cast<EventId>(n + 1), kPendingBegin + n * given.apart_ns, n), false);
    }
    EXPECT_EQ(pending.size(), given.kept) << given.apart_ns;
  }
}

TEST(PendingCalls, RemembersTheNumbersOfThoseGivenUp) {
  for (const bool remember : {true, false}) {
    CommunicatorIdentity identity;
    make_communicator(identity, kPendingPointer, kPendingSerial, kPendingHash);
    PendingCalls pending;
    for (int64_t n = 0; n < 2000; ++n) {
      pending.put(call(static_cast<EventId>(n + 1), kPendingBegin + n * 10 * kNsPerMs, n), remember);
    }
    EXPECT_EQ(pending.given_up(in_file(call(0, 0, 3)), identity), remember ? std::optional<EventId>(4) : std::nullopt);
    EXPECT_EQ(pending.given_up(in_file(call(0, 0, 1999)), identity), std::nullopt) << "still there";
    Collective elsewhere = in_file(call(0, 0, 3));
    elsewhere.comm_ptr = kPendingSerial + 7;
    elsewhere.comm_id_hash = kPendingHash + 7;
    EXPECT_EQ(pending.given_up(elsewhere, identity), std::nullopt);
  }
}

TEST(PendingCalls, SaysWhenItForgetsACallThatTheFileMayStillReport) {
  for (const bool behind : {true, false}) {
    CommunicatorIdentity identity;
    make_communicator(identity, kPendingPointer, kPendingSerial, kPendingHash);
    PendingCalls pending;
    constexpr size_t kAll = kMostRows + kMostGivenUp;
    const auto put = [&](size_t n) {
      const auto number = static_cast<int64_t>(n);
      return pending.put(call(n + 1, kPendingBegin + number * kNsPerMs, number), true, behind);
    };
    size_t next = 0;
    for (; pending.size() + kMostGivenUp > next; ++next) {
      ASSERT_TRUE(put(next)) << next;
    }
    EXPECT_TRUE(pending.given_up(in_file(call(0, 0, 0)), identity)) << "the oldest that was given up";
    EXPECT_TRUE(put(next)) << "the file has reported the first call";
    EXPECT_EQ(put(next + 1), !behind) << "and not the second, a minute ago";
    EXPECT_LE(next, kAll);
    EXPECT_FALSE(pending.given_up(in_file(call(0, 0, 1)), identity));
  }
}

}  // namespace
}  // namespace stalltrace::blackbox
