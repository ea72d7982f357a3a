// SPDX-License-Identifier: Apache-2.0
// Real Gloo: two processes on the distribution's library, whose last call throws while it is traced.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "base/process/command.h"
#include "support.h"

namespace stalltrace::capture {
namespace {

using testing::Optional;

struct JobEnd {
  std::map<int32_t, int32_t> pids;  // by rank
  bool caught = false;              // the exception arrived where the job expects it
};

JobEnd run_job() {
  const std::string folder = testing::TempDir() + "gloo_root_test." + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const auto output = run_and_capture({.argv = {standin("standin_gloo_job"), folder},
                                       .environment = {"TORCHELASTIC_RUN_ID=gloo_root_test", "WORLD_SIZE=2"}},
                                      std::chrono::seconds(60));
  std::filesystem::remove_all(folder);
  JobEnd end;
  EXPECT_TRUE(output && output->status.success()) << (output ? output->err : output.error().what);
  std::istringstream lines(output ? output->out : "");
  for (std::string word; lines >> word;) {
    if (word == "caught") {
      end.caught = true;
    } else {
      int32_t rank = -1;
      lines >> rank;
      end.pids[rank] = std::stoi(word);
    }
  }
  return end;
}

struct ExpectedGlooCall {
  Operation op;
  std::optional<int64_t> count;
  int64_t bytes;
  std::optional<int32_t> root;
  int64_t seq;
};

class GlooRoot : public testing::Test {
 protected:
  void SetUp() override { ST_NEED_ROOT(); }
};

TEST_F(GlooRoot, EveryCallOfARealJobAndNoHarmWhereOneThrows) {
  Trace trace({.libraries = {standin("standin_gloo_job")}});
  const JobEnd job = run_job();
  trace.stop();
  EXPECT_TRUE(job.caught);  // a return probe would have ended the process
  ASSERT_EQ(job.pids.size(), 2U);
  constexpr std::nullopt_t no = std::nullopt;
  const std::vector<ExpectedGlooCall> expected{
      {Operation::kAllReduce, 101, 404, no, 20}, {Operation::kBroadcast, 102, 408, 1, 21},
      {Operation::kReduce, 103, 412, 1, 22},     {Operation::kAllGather, 104, 832, no, 23},
      {Operation::kGather, 105, 840, 1, 24},     {Operation::kScatter, 106, 848, 1, 25},
      {Operation::kAllToAll, 107, 856, no, 26},  {Operation::kBarrier, no, 0, no, 27},
      {Operation::kAllReduce, 108, 432, no, 28},
  };
  for (const auto& [rank, pid] : job.pids) {
    SCOPED_TRACE(rank);
    std::vector<Collective> rows = trace.calls(pid);
    ASSERT_EQ(rows.size(), (rank == 0 ? expected.size() : expected.size() - 1) + 1);
    EXPECT_EQ(rows[0].op, Operation::kCommInitRank);
    EXPECT_EQ(rows[0].completion, Completion::kCall);
    for (size_t i = 1; i < rows.size(); ++i) {
      const Collective& row = rows[i];
      const ExpectedGlooCall& call = expected[i - 1];
      SCOPED_TRACE(i);
      EXPECT_EQ(row.library, Library::kGloo);
      EXPECT_EQ(row.op, call.op);
      EXPECT_EQ(row.count, call.count);
      EXPECT_EQ(row.bytes, call.bytes);
      EXPECT_EQ(row.root, call.root);
      EXPECT_THAT(row.seq, Optional(call.seq));
      EXPECT_THAT(row.rank, Optional(rank));
      EXPECT_THAT(row.nranks, Optional(2));
      EXPECT_EQ(row.rank_source, RankSource::kInit);
      EXPECT_EQ(row.comm_ptr, rows[0].comm_ptr);
      EXPECT_EQ(row.completion, Completion::kCall);
      const bool threw = call.count == 108;
      EXPECT_THAT(row.return_code, Optional(threw ? 1 : 0));
      EXPECT_GE(row.duration_ns.value_or(0), threw ? 100'000'000 : 1);
    }
  }
}

}  // namespace
}  // namespace stalltrace::capture
