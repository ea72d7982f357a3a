// SPDX-License-Identifier: Apache-2.0
// One communicator under each of its names.
#include "blackbox/pairing/communicator_identity.h"

#include <gtest/gtest.h>

#include <vector>

namespace stalltrace::blackbox {
namespace {

constexpr uint64_t kCommPointer = 0xc0;
constexpr uint64_t kCommSerial = 1;
constexpr uint64_t kHash = 0xabc;

Communicator in_file(uint64_t serial = kCommSerial) {
  Communicator row{.comm_ptr = serial, .comm_id_hash = kHash, .nccl_comm_hash = kHash};
  row.rank = 3;
  row.nranks = 4;
  row.rank_source = RankSource::kPlugin;
  return row;
}

Collective call(uint64_t communicator, int64_t number, Operation op = Operation::kAllReduce) {
  Collective row;
  row.comm_ptr = communicator;
  row.op = op;
  row.seq = number;
  return row;
}

TEST(CommunicatorIdentity, ACommonCallConnectsPointerAndSerialNumber) {
  CommunicatorIdentity identity;
  identity.accept_probed({.comm_ptr = kCommPointer, .created_ns = 7});
  ASSERT_TRUE(identity.accept_profiled(in_file()));
  EXPECT_EQ(identity.find(kHash), nullptr);
  const auto connected = identity.connect(call(kCommPointer, 0), call(kCommSerial, 40));
  ASSERT_TRUE(connected);
  EXPECT_EQ(connected->comm_ptr, kCommPointer);
  EXPECT_EQ(connected->nccl_comm_hash, kHash);
  EXPECT_EQ(connected->rank, 3);
  EXPECT_FALSE(identity.connect(call(kCommPointer, 1), call(kCommSerial, 41))) << "connected before";
  ASSERT_NE(identity.find(kHash), nullptr);
  EXPECT_EQ(identity.find(kHash)->comm_ptr, kCommPointer);
  Collective named = call(kCommSerial, 42);
  EXPECT_TRUE(identity.rename(named));
  EXPECT_EQ(named.comm_ptr, kCommPointer);
}

TEST(CommunicatorIdentity, WhatNcclsMemoryShowedIsByTheFileOnceItKnowsTheRank) {
  for (const bool file_has_rank : {true, false}) {
    CommunicatorIdentity identity;
    Communicator probed{.comm_ptr = kCommPointer, .created_ns = 7};
    probed.nccl_comm_hash = kHash;
    probed.rank = 3;
    probed.nranks = 4;
    probed.rank_source = RankSource::kMemory;
    identity.accept_probed(probed);
    Communicator row = in_file();
    if (!file_has_rank) {
      row.rank.reset();
      row.rank_source = RankSource::kUnknown;
    }
    ASSERT_TRUE(identity.accept_profiled(row));
    const auto connected = identity.connect(call(kCommPointer, 0), call(kCommSerial, 40));
    ASSERT_TRUE(connected);
    EXPECT_EQ(connected->rank, 3);
    EXPECT_EQ(connected->nranks, 4);
    EXPECT_EQ(connected->rank_source, file_has_rank ? RankSource::kPlugin : RankSource::kMemory);
  }
}

TEST(CommunicatorIdentity, NumbersOfACommunicatorMadeBeforeTracingAreShifted) {
  CommunicatorIdentity identity;
  identity.accept_probed({.comm_ptr = kCommPointer});
  identity.accept_profiled(in_file());
  EXPECT_EQ(identity.file_number(call(kCommPointer, 2)), std::nullopt);
  identity.connect(call(kCommPointer, 0), call(kCommSerial, 40));
  EXPECT_EQ(identity.file_number(call(kCommPointer, 2)), 42);
  EXPECT_EQ(identity.file_number(call(kCommPointer, 2, Operation::kSend)), std::nullopt) << "numbered on their own";
  Collective completed = call(kCommPointer, 2);
  identity.complete(completed);
  EXPECT_EQ(completed.seq, 42);
  EXPECT_EQ(completed.nranks, 4);
  EXPECT_EQ(completed.comm_id_hash, kHash);
  std::vector<std::pair<uint64_t, int64_t>> candidates;
  Collective asked = call(kCommSerial, 42);
  identity.for_each_probed_number(asked, [&](uint64_t pointer, int64_t number, bool sure) {
    EXPECT_TRUE(sure);
    candidates.emplace_back(pointer, number);
    return false;
  });
  EXPECT_EQ(candidates, (std::vector<std::pair<uint64_t, int64_t>>{{kCommPointer, 2}}));
}

TEST(CommunicatorIdentity, ANewCommunicatorAtTheSameAddressIsAnother) {
  CommunicatorIdentity identity;
  identity.accept_probed({.comm_ptr = kCommPointer, .created_ns = 7});
  identity.accept_profiled(in_file());
  identity.connect(call(kCommPointer, 0), call(kCommSerial, 0));
  identity.accept_probed({.comm_ptr = kCommPointer, .nccl_comm_hash = kHash + 1, .created_ns = 8});
  EXPECT_FALSE(identity.may_be_same(call(kCommPointer, 0), [] {
    Collective row = call(kCommSerial, 0);
    row.comm_id_hash = kHash;
    return row;
  }()));
  Collective old = call(kCommSerial, 9);
  EXPECT_FALSE(identity.rename(old));
}

TEST(CommunicatorIdentity, EqualHashesNameOneCommunicatorBeforeAnyCall) {
  CommunicatorIdentity identity;
  identity.accept_probed({.comm_ptr = kCommPointer, .comm_id_hash = 0x1d, .nccl_comm_hash = kHash});
  identity.accept_profiled(in_file());
  Collective row = call(kCommSerial, 0);
  row.comm_id_hash = kHash;
  EXPECT_TRUE(identity.may_be_same(call(kCommPointer, 0), row));
  EXPECT_TRUE(identity.rename(row));
  EXPECT_EQ(row.comm_id_hash, 0x1d);
}

TEST(CommunicatorIdentity, KeepsABoundedNumberOfAFilesCommunicators) {
  CommunicatorIdentity identity;
  for (uint64_t serial = 1; serial <= 1024; ++serial) {
    ASSERT_TRUE(identity.accept_profiled(in_file(serial)));
  }
  EXPECT_FALSE(identity.accept_profiled(in_file(1025)));
  EXPECT_TRUE(identity.accept_profiled(in_file(1024))) << "known before";
  EXPECT_EQ(identity.profiled(1025), nullptr);
}

/// As many as are kept of the probes, alive; pointer, NCCL's hash and time of creation are 1, 2, 3 ...
CommunicatorIdentity full_identity() {
  CommunicatorIdentity identity;
  for (uint64_t n = 1; n <= kMostProbedCommunicators; ++n) {
    identity.accept_probed({.comm_ptr = n, .nccl_comm_hash = n, .created_ns = static_cast<int64_t>(n)});
  }
  EXPECT_EQ(identity.take_forgotten(), 0);
  return identity;
}

TEST(CommunicatorIdentity, ForgetsTheOldestOfTheProbesCommunicators) {
  CommunicatorIdentity identity = full_identity();
  identity.accept_profiled(in_file());
  identity.connect(call(1, 0), call(kCommSerial, 0));
  identity.accept_probed({.comm_ptr = 2, .nccl_comm_hash = 20'000, .created_ns = 20'000});  // at number 2's address
  Collective named = call(kCommSerial, 1);
  ASSERT_TRUE(identity.rename(named));
  for (uint64_t n = 10'001; n <= 10'003; ++n) {
    identity.accept_probed({.comm_ptr = n, .nccl_comm_hash = n, .created_ns = static_cast<int64_t>(n)});
  }
  EXPECT_EQ(identity.take_forgotten(), 3);
  EXPECT_EQ(identity.take_forgotten(), 0) << "counted once";
  for (const uint64_t hash : {1, 3, 4}) {
    EXPECT_EQ(identity.find(hash), nullptr) << hash;
  }
  for (const uint64_t hash : {5, 10'003, 20'000}) {
    EXPECT_NE(identity.find(hash), nullptr) << hash;
  }
  named = call(kCommSerial, 2);
  EXPECT_FALSE(identity.rename(named)) << "its pointer is forgotten";
  identity.connect(call(30'000, 0), call(kCommSerial + 1, 0));  // known only by its calls
  EXPECT_EQ(identity.take_forgotten(), 1);
  EXPECT_EQ(identity.find(5), nullptr);
}

TEST(CommunicatorIdentity, ForgetsDestroyedCommunicatorsFirst) {
  for (const int64_t ago_ns : {kReadLateNs, kReadLateNs - 1}) {
    CommunicatorIdentity identity = full_identity();
    constexpr int64_t kDestroyedNs = 50'000;
    identity.accept_probed({.comm_ptr = 7, .nccl_comm_hash = 7, .created_ns = 7, .destroyed_ns = kDestroyedNs});
    identity.accept_probed({.comm_ptr = 10'001, .nccl_comm_hash = 10'001, .created_ns = kDestroyedNs + ago_ns});
    EXPECT_EQ(identity.find(7), nullptr);
    EXPECT_NE(identity.find(1), nullptr);
    EXPECT_EQ(identity.take_forgotten(), ago_ns < kReadLateNs ? 1 : 0) << "calls of it may still come";
  }
}

}  // namespace
}  // namespace stalltrace::blackbox
