// SPDX-License-Identifier: Apache-2.0
// The size of a call, from rows whose number of ranks may be a guess or missing.
#include "analysis/timeline/signature_table.h"

#include <gtest/gtest.h>

#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

constexpr int32_t kFloat32 = 7;
constexpr int64_t kCount = 1024;

/// An AllGather of NCCL by a rank whose communicator has `nranks` ranks, by the recorder's knowledge.
Collective gather(std::optional<int32_t> nranks) {
  Collective row{.op = Operation::kAllGather, .nranks = nranks};
  row.count = kCount;
  row.datatype = kFloat32;
  row.bytes = payload_bytes(row.op, kCount, 4, nranks.value_or(0));
  return row;
}

TEST(SignatureBytes, AreOfOnePartWhateverTheNumberOfRanksIsClaimedToBe) {
  for (const std::optional<int32_t> nranks : {std::optional(512), std::optional(8), std::optional<int32_t>()}) {
    EXPECT_EQ(signature_bytes(gather(nranks)), 4 * kCount);
  }
  Collective without_count = gather(8);
  without_count.count.reset();
  EXPECT_EQ(signature_bytes(without_count), 4 * kCount);
  without_count.nranks.reset();
  EXPECT_EQ(signature_bytes(without_count), CallSignature::kUnknownBytes);
}

TEST(SignatureBytes, OfOtherOperationsAreTheRows) {
  Collective row{.bytes = 77};
  EXPECT_EQ(signature_bytes(row), 77);
}

TEST(Signatures, AnUnknownSizeAgreesWithAny) {
  const CallSignature known{.op = Operation::kAllGather, .bytes = 8, .exact = true};
  const CallSignature unknown{.op = Operation::kAllGather, .bytes = CallSignature::kUnknownBytes, .exact = true};
  const CallSignature other{.op = Operation::kAllGather, .bytes = 9, .exact = true};
  EXPECT_TRUE(agree(known, unknown));
  EXPECT_FALSE(agree(known, other));
}

/// Attached to a job of 512 ranks: one node's rows took the job's size for the communicator's, the others' come from
/// profiler files, which know it. Or it is a split whose size is not known.
TEST(Signatures, AGuessedNumberOfRanksMakesNoWrongData) {
  using namespace small_job;
  for (const int32_t guess : {512, 0}) {
    Ending ending;
    ending.call = [=](int rank, int64_t, Collective& call) {
      const int32_t nranks = rank == 0 ? guess : kRanks;
      call.op = Operation::kAllGather;
      call.count = kCount;
      call.datatype = kFloat32;
      call.bytes = payload_bytes(call.op, kCount, 4, nranks);
      call.nranks = nranks == 0 ? std::nullopt : std::optional(nranks);
      return true;
    };
    const Report report = report_of(ending);
    EXPECT_TRUE(report.healthy) << reported(report);
  }
}

/// Small and large gathers of a communicator of unknown size are not compared with each other.
TEST(Signatures, GathersOfUnknownSizeHaveBaselinesByTheirCount) {
  using namespace small_job;
  Ending ending;
  ending.call = [=](int, int64_t step, Collective& call) {
    const bool large = step % 4 == 3;
    call.op = Operation::kAllGather;
    call.count = large ? 1000 * kCount : kCount;
    call.datatype = kFloat32;
    call.bytes = 0;
    call.nranks.reset();
    *call.duration_ns += large ? 40 * kNsPerMs : 0;
    call.timestamp_ns += step / 4 * 40 * kNsPerMs;
    return true;
  };
  const Report report = report_of(ending);
  EXPECT_TRUE(report.healthy) << reported(report);
}

}  // namespace
}  // namespace stalltrace::analysis
