// SPDX-License-Identifier: Apache-2.0
// The sentences are made up after the format strings of PyTorch; none is a copy of a real job's.
#include "model/events/imported/torch_report.h"

#include <gtest/gtest.h>

#include <string>

namespace stalltrace {
namespace {

using Kind = TorchReport::Kind;

TEST(TorchReport, TwoRanksInDifferentCollectives) {
  const std::string line =
      "[rank0]: RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
      "CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[20, 10], TensorDtypes=Float, "
      "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda)), but Rank 3 is running collective: "
      "CollectiveFingerPrint(SequenceNumber=8OpType=BARRIER).Collectives differ in the following aspects: ";
  const auto report = read_torch_report(line);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->kind, Kind::kMismatch);
  EXPECT_EQ(report->ranks, (std::vector<int32_t>{0, 3}));
  ASSERT_EQ(report->fingerprints.size(), 2U);
  EXPECT_EQ(report->fingerprints[0].op, "ALLREDUCE");
  EXPECT_EQ(report->fingerprints[0].number, 7);
  EXPECT_EQ(report->fingerprints[0].shape, "[20, 10]");
  EXPECT_EQ(report->fingerprints[0].dtypes, "Float");
  EXPECT_EQ(report->fingerprints[1].op, "BARRIER");
  EXPECT_EQ(report->fingerprints[1].number, 8);
  EXPECT_EQ(report->fingerprints[1].shape, "");
  EXPECT_TRUE(report->text.starts_with("Detected mismatch"));
}

TEST(TorchReport, ParametersWithoutGradients) {
  const auto report = read_torch_report("Parameters which did not receive grad for rank 1: fc2.weight, fc2.bias ");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->kind, Kind::kUnusedParameters);
  EXPECT_EQ(report->ranks, std::vector<int32_t>{1});
  EXPECT_EQ(report->parameters, "fc2.weight, fc2.bias");
  EXPECT_EQ(read_torch_report("x Parameters which did not receive grad for rank 0: a Parameter indices which did not "
                              "receive grad for rank 0: 0")
                ->parameters,
            "a");
}

TEST(TorchReport, RanksThatMissABarrier) {
  EXPECT_EQ(read_torch_report("RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms")->ranks,
            std::vector<int32_t>{1});
  const auto several = read_torch_report("[rank0]: [Rank 0]: Ranks 1, 2, 30 failed to pass monitoredBarrier in 9 ms");
  EXPECT_EQ(several->ranks, (std::vector<int32_t>{1, 2, 30}));
  EXPECT_EQ(several->text, "Ranks 1, 2, 30 failed to pass monitoredBarrier in 9 ms");
}

TEST(TorchReport, EachNameOfAnOperation) {
  const std::vector<std::pair<std::string_view, Operation>> names{{"ALLREDUCE", Operation::kAllReduce},
                                                                  {"ALLREDUCE_COALESCED", Operation::kAllReduce},
                                                                  {"BROADCAST", Operation::kBroadcast},
                                                                  {"_REDUCE_OOP", Operation::kReduce},
                                                                  {"_ALLGATHER_BASE", Operation::kAllGather},
                                                                  {"_REDUCE_SCATTER_BASE", Operation::kReduceScatter},
                                                                  {"GATHER", Operation::kGather},
                                                                  {"SCATTER", Operation::kScatter},
                                                                  {"ALLTOALL_BASE", Operation::kAllToAll},
                                                                  {"SEND", Operation::kSend},
                                                                  {"RECVANYSOURCE", Operation::kRecv},
                                                                  {"BARRIER", Operation::kBarrier},
                                                                  {"UNKNOWN", Operation::kGroup},
                                                                  {"", Operation::kGroup}};
  for (const auto& [type, op] : names) {
    EXPECT_EQ(operation_of_torch(type), op) << type;
  }
}

TEST(TorchReport, WhatIsNone) {
  for (const std::string_view line :
       {"", "Detected mismatch between collectives on ranks. Rank ", "failed to pass monitoredBarrier in 5 ms",
        "Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(OpType=A",
        "Detected mismatch between collectives on ranks. Rank 0 is running collective: "
        "CollectiveFingerPrint(OpType=A), "
        "but Rank 0 is running collective: CollectiveFingerPrint(OpType=B)",
        "Parameters which did not receive grad for rank x: a", "Parameters which did not receive grad for rank 1: ",
        "Rank x failed to pass monitoredBarrier in 5 ms", "nothing failed to pass monitoredBarrier in 5 ms",
        "Rank 99999999999999999999 failed to pass monitoredBarrier in 5 ms",
        "Rank 1 successfully reached monitoredBarrier, but received errors"}) {
    EXPECT_FALSE(read_torch_report(line)) << line;
  }
}

}  // namespace
}  // namespace stalltrace
