// SPDX-License-Identifier: Apache-2.0
// A process's identity: the variables of each launcher, values that are not ranks, and facts that only an ancestor has.
#include "capture/discover/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace stalltrace::capture {
namespace {

namespace fs = std::filesystem;
using testing::Optional;

TEST(Identity, Torchrun) {
  const JobIdentity identity =
      job_identity({{"RANK", "5"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "8"}, {"TORCHELASTIC_RUN_ID", "run-7"}});
  EXPECT_THAT(identity.rank, Optional(5));
  EXPECT_THAT(identity.local_rank, Optional(1));
  EXPECT_THAT(identity.world_size, Optional(8));
  EXPECT_EQ(identity.job_id, "run-7");
}

TEST(Identity, OpenMpi) {
  const JobIdentity identity = job_identity({{"OMPI_COMM_WORLD_RANK", "3"},
                                             {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                             {"OMPI_COMM_WORLD_SIZE", "4"},
                                             {"PMIX_NAMESPACE", "prterun-1"}});
  EXPECT_THAT(identity.rank, Optional(3));
  EXPECT_THAT(identity.local_rank, Optional(0));
  EXPECT_THAT(identity.world_size, Optional(4));
  EXPECT_EQ(identity.job_id, "prterun-1");
}

TEST(Identity, PmiOfMpich) {
  const JobIdentity identity = job_identity({{"PMI_RANK", "2"}, {"MPI_LOCALRANKID", "2"}, {"PMI_SIZE", "16"}});
  EXPECT_THAT(identity.rank, Optional(2));
  EXPECT_THAT(identity.local_rank, Optional(2));
  EXPECT_THAT(identity.world_size, Optional(16));
}

TEST(Identity, Slurm) {
  const JobIdentity identity =
      job_identity({{"SLURM_PROCID", "11"}, {"SLURM_LOCALID", "3"}, {"SLURM_NTASKS", "32"}, {"SLURM_JOB_ID", "991"}});
  EXPECT_THAT(identity.rank, Optional(11));
  EXPECT_THAT(identity.local_rank, Optional(3));
  EXPECT_THAT(identity.world_size, Optional(32));
  EXPECT_EQ(identity.job_id, "991");
}

/// torchrun under Slurm: one Slurm task per node, so Slurm's numbers are those of the nodes.
TEST(Identity, TheInnerLauncherGivesAllNumbersAndTheOuterTheJob) {
  const JobIdentity identity = job_identity(
      {{"RANK", "9"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "991"}});
  EXPECT_THAT(identity.rank, Optional(9));
  EXPECT_EQ(identity.local_rank, std::nullopt);
  EXPECT_EQ(identity.world_size, std::nullopt);
  EXPECT_EQ(identity.job_id, "991");
}

TEST(Identity, NothingKnown) {
  const JobIdentity identity = job_identity({{"PATH", "/bin"}});
  EXPECT_EQ(identity.rank, std::nullopt);
  EXPECT_EQ(identity.world_size, std::nullopt);
  EXPECT_EQ(identity.job_id, "");
}

TEST(Identity, OnlySettingsOfTheSetUpAreKept) {
  EXPECT_EQ(job_settings({{"MASTER_PORT", "29500"},
                          {"MASTER_ADDR", "10.0.0.1"},
                          {"NCCL_SOCKET_IFNAME", "eth0"},
                          {"GLOO_SOCKET_IFNAME", "eth0\nWORLD_SIZE=7"},
                          {"AWS_SECRET_ACCESS_KEY", "x"},
                          {"PATH", "/bin"}}),
            "MASTER_ADDR=10.0.0.1\nMASTER_PORT=29500\nNCCL_SOCKET_IFNAME=eth0");
  EXPECT_EQ(job_settings({{"NCCL_DEBUG", std::string(5000, 'x')}, {"WORLD_SIZE", "8"}}), "WORLD_SIZE=8");
  EXPECT_EQ(job_settings({}), "");
}

/// MPICH's launcher passes a rank no job id. The proxy that started the rank, here through a shell, got an address.
class HydraJob : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("hydra_job_test_" + std::to_string(::getpid()));
    fs::create_directories(root_);
    put(30, 20, "train");
    put(20, 10, "sh -c train");
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(pid_t pid, pid_t parent, std::string words) const {
    const fs::path folder = root_ / std::to_string(pid);
    fs::create_directories(folder);
    std::ofstream(folder / "stat") << pid << " (name) S " << parent << " 1 1 0 -1 0 0\n";
    std::replace(words.begin(), words.end(), ' ', '\0');
    std::ofstream(folder / "cmdline") << words << '\0';
  }
  [[nodiscard]] std::string job_of(pid_t pid) const { return hydra_job(Procfs(root_.string()), pid); }
  fs::path root_;
};

TEST_F(HydraJob, IsWhatTheProxyWasReported) {
  put(10, 5, "/usr/bin/hydra_pmi_proxy --control-port head:43210 --rmk user --pgid 1 --proxy-id 0");
  EXPECT_EQ(job_of(30), "head:43210/1");
}

TEST_F(HydraJob, IsNotWithoutAProxy) {
  put(10, 1, "sshd --control-port");
  EXPECT_EQ(job_of(30), "");
  EXPECT_EQ(job_of(99), "");
}

TEST(Identity, AJobOfNoRanksHasNoSize) {
  EXPECT_EQ(job_identity({{"RANK", "0"}, {"WORLD_SIZE", "0"}}).world_size, std::nullopt);
}

class BadNumber : public testing::TestWithParam<const char*> {};

TEST_P(BadNumber, IsNoRankAndNotRankZero) {
  EXPECT_EQ(job_identity({{"RANK", GetParam()}, {"WORLD_SIZE", "8"}}).rank, std::nullopt);
  EXPECT_EQ(job_identity({{"RANK", "1"}, {"WORLD_SIZE", GetParam()}}).world_size, std::nullopt);
  EXPECT_THAT(job_identity({{"RANK", GetParam()}, {"SLURM_PROCID", "6"}}).rank, Optional(6));
}

INSTANTIATE_TEST_SUITE_P(Values, BadNumber,
                         testing::Values("", " ", "-1", "x", "1x", "1.5", "0x10", "99999999999999999999", "16777216"));

}  // namespace
}  // namespace stalltrace::capture
