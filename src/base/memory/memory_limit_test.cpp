// SPDX-License-Identifier: Apache-2.0
#include "base/memory/memory_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace stalltrace {
namespace {

class FakeHost : public ::testing::Test {
 protected:
  FakeHost() {
    std::string pattern = ::testing::TempDir() + "memory_limit_XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    put("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:         1 kB\n");
  }
  ~FakeHost() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(FakeHost, TheHostsMemoryWhereNothingLimitsIt) {
  EXPECT_EQ(memory_limit(root_), 8ULL << 30);
  put("/proc/self/cgroup", "0::/user.slice/job\n");
  put("/sys/fs/cgroup/user.slice/job/memory.max", "max\n");
  EXPECT_EQ(memory_limit(root_), 8ULL << 30);
}

TEST_F(FakeHost, TheLeastLimitOfTheCgroupsAboveIt) {
  put("/proc/self/cgroup", "0::/a/b/c\n");
  put("/sys/fs/cgroup/a/memory.max", "1073741824\n");
  put("/sys/fs/cgroup/a/b/memory.max", "2147483648\n");
  put("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  EXPECT_EQ(memory_limit(root_), 1ULL << 30);
}

TEST_F(FakeHost, InAContainerItsOwnGroupIsTheRoot) {
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/memory.max", "536870912\n");
  EXPECT_EQ(memory_limit(root_), 512ULL << 20);
}

TEST_F(FakeHost, VersionOne) {
  put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/slurm/job_7\n0::/\n");
  put("/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "268435456\n");
  EXPECT_EQ(memory_limit(root_), 256ULL << 20);
}

}  // namespace
}  // namespace stalltrace
