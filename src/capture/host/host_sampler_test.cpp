// SPDX-License-Identifier: Apache-2.0
#include "capture/host/host_sampler.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "capture/host/host_files.h"
#include "capture/kernel/drop_reasons.h"
#include "model/memory_source.h"

namespace stalltrace::capture {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kSecond = 1'000'000'000;

TEST(HostFiles, SoftnetCountsAreHexadecimal) {
  const auto cpus = parse_softnet("04cc962f 0000001f 00000008 0\n0449b231 00000000 00000010 0\n");
  ASSERT_EQ(cpus.size(), 2U);
  EXPECT_EQ(cpus[0].dropped, 31U);
  EXPECT_EQ(cpus[0].squeezed, 8U);
  EXPECT_EQ(cpus[1].squeezed, 16U);
}

TEST(HostFiles, InterfacesHaveErrorsAndDropsOfBothDirections) {
  const auto interfaces = parse_net_dev(
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier "
      "compressed\n"
      "  eth0: 100 1 2 3 0 0 0 0 200 4 5 6 0 0 0 0\n");
  ASSERT_EQ(interfaces.size(), 1U);
  EXPECT_EQ(interfaces[0].name, "eth0");
  EXPECT_EQ(interfaces[0].rx_errors, 2U);
  EXPECT_EQ(interfaces[0].rx_dropped, 3U);
  EXPECT_EQ(interfaces[0].tx_errors, 5U);
  EXPECT_EQ(interfaces[0].tx_dropped, 6U);
}

TEST(HostFiles, KeysAndPressureAreFoundAndBrokenLinesAreNot) {
  EXPECT_EQ(parse_keyed("nr_periods 4\nnr_throttled 3\n", "nr_throttled"), 3U);
  EXPECT_EQ(parse_keyed("nr_throttled many\n", "nr_throttled"), std::nullopt);
  EXPECT_EQ(parse_pressure("some avg10=0.00 total=7\nfull avg10=0.00 total=5\n", "full"), 5U);
  EXPECT_EQ(parse_pressure("", "full"), std::nullopt);
  EXPECT_TRUE(parse_softnet("garbage\n").empty());
  EXPECT_TRUE(parse_net_dev("eth0: 1 2\n").empty());
  EXPECT_TRUE(parse_cgroups("nonsense").empty());
}

TEST(DropReasons, FaultsAndRulesAreReportedAndTcpsOwnWorkIsNot) {
  EXPECT_TRUE(is_recorded_drop_reason("NETFILTER_DROP"));
  EXPECT_TRUE(is_recorded_drop_reason("CPU_BACKLOG"));
  EXPECT_FALSE(is_recorded_drop_reason("TCP_OLD_DATA"));
  EXPECT_FALSE(is_recorded_drop_reason("NOT_SPECIFIED"));
}

class Sampler : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("host" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  [[nodiscard]] HostRoots roots() const {
    return {(folder_ / "proc").string(), (folder_ / "sys").string(), (folder_ / "cgroup").string()};
  }
  std::vector<HostSample> samples(const std::string& name) {
    std::vector<HostSample> found;
    EXPECT_TRUE(sink_.host_samples({}, [&](const HostSample& row) {
      if (row.name == name) {
        found.push_back(row);
      }
    }));
    return found;
  }

  fs::path folder_;
  MemorySource sink_;
};

TEST_F(Sampler, AChangeIsBracketedByTheLastUnchangedValue) {
  HostSampler sampler(roots(), 7, sink_);
  for (int64_t second = 0; second < 5; ++second) {
    write("proc/self/net/softnet_stat", second < 4 ? "1 00000002 0\n" : "1 00000009 0\n");
    sampler.sample(second * kSecond, {});
  }
  const auto drops = samples("softnet_drops");
  ASSERT_EQ(drops.size(), 3U);
  EXPECT_EQ(drops[0].timestamp_ns, 0);
  EXPECT_EQ(drops[1].timestamp_ns, 3 * kSecond);
  EXPECT_EQ(drops[1].value, 2);
  EXPECT_EQ(drops[2].timestamp_ns, 4 * kSecond);
  EXPECT_EQ(drops[2].value, 9);
  EXPECT_EQ(drops[2].detail, "cpu0");
}

TEST_F(Sampler, MemoryPressureIsReportedOfSomeAndOfAllTasks) {
  write("proc/pressure/memory", "some avg10=0.00 total=70\nfull avg10=0.00 total=50\n");
  HostSampler sampler(roots(), 7, sink_);
  sampler.sample(kSecond, {});
  ASSERT_EQ(samples("pressure_memory_some_us").size(), 1U);
  EXPECT_EQ(samples("pressure_memory_some_us")[0].value, 70);
  ASSERT_EQ(samples("pressure_memory_full_us").size(), 1U);
  EXPECT_EQ(samples("pressure_memory_full_us")[0].value, 50);
}

TEST_F(Sampler, ThrottlingIsReadFromBothVersionsAndAllLevels) {
  write("proc/5/cgroup", "4:memory:/job\n1:cpu,cpuacct:/pod/job\n0::/ignored\n");
  write("cgroup/cpu,cpuacct/pod/job/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 5000000\n");
  write("cgroup/cpu,cpuacct/pod/cpu.stat", "nr_periods 9\nnr_throttled 0\nthrottled_time 0\n");
  write("cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  write("proc/6/cgroup", "0::/slice\n");
  write("cgroup/unified/slice/cpu.stat", "usage_usec 1\nnr_throttled 2\nthrottled_usec 42\n");
  HostSampler sampler(roots(), 7, sink_);
  sampler.sample(kSecond, {5, 6});
  const auto throttled = samples("throttled_us");
  ASSERT_EQ(throttled.size(), 3U);
  EXPECT_EQ(throttled[0].detail, "5:/pod/job");
  EXPECT_EQ(throttled[0].value, 5000);
  EXPECT_EQ(throttled[1].detail, "5:/pod");
  EXPECT_EQ(throttled[2].detail, "6:/slice");
  EXPECT_EQ(throttled[2].value, 42);
  ASSERT_EQ(samples("oom_kills").size(), 1U);
  EXPECT_EQ(samples("oom_kills")[0].detail, "5:/job");
}

TEST_F(Sampler, PortCountersComeFromTheGivenRoot) {
  write("sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "17\n");
  write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_packets", "17\n");  // not a recorded counter
  write("sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "N/A (no PMA)\n");
  HostSampler sampler(roots(), 7, sink_);
  sampler.sample(kSecond, {});
  std::vector<PortCounter> rows;
  ASSERT_TRUE(sink_.port_counters({}, [&](const PortCounter& row) { rows.push_back(row); }));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].device, "mlx5_0");
  EXPECT_EQ(rows[0].port, 1);
  EXPECT_EQ(rows[0].name, "symbol_error");
  EXPECT_EQ(rows[0].value, 17U);
}

}  // namespace
}  // namespace stalltrace::capture
