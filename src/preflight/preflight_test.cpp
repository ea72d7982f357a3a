// SPDX-License-Identifier: Apache-2.0
#include "preflight/preflight.h"

#include <gtest/gtest.h>

#include "preflight/host/host_checks.h"
#include "preflight/output.h"
#include "preflight/testing/host_folder.h"
#include "tests/support/golden_text.h"

namespace stalltrace::preflight {
namespace {

constexpr uint64_t kGib = 1ULL << 30;

ProcessLimits good_limits() {
  return {.shared_memory_bytes = 8 * kGib,
          .shared_memory_free_bytes = 8 * kGib,
          .locked_memory_bytes = std::nullopt,
          .allowed_cpus = 16,
          .online_cpus = 64,
          .clock_synchronized = true};
}

std::string checked(const ProcessLimits& limits, bool rdma, const HostFolder& host, bool shared_memory = true) {
  HostReport report;
  check_host(limits, {.rdma = rdma, .shared_memory = shared_memory}, host.files(), report);
  return checks_text(report.checks);
}

TEST(HostChecks, PassOnAReadyHost) {
  const HostFolder host;
  host.write("proc/self/cgroup", "0::/job.slice\n");
  host.write("sys/fs/cgroup/job.slice/cpu.max", "max 100000\n");
  host.write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
  host.write("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n");
  host.write("proc/net/softnet_stat", "00a1 00000000 00000001\n00b2 00000000 00000000\n");
  golden::expect_text(checked(good_limits(), true, host));
}

TEST(HostChecks, SayWhatIsMissing) {
  const HostFolder host;
  host.write("proc/self/cgroup", "12:cpu:/old\n0::/job.slice\n");
  host.write("sys/fs/cgroup/job.slice/cpu.max", "150000 100000\n");
  host.write("sys/fs/cgroup/job.slice/cpu.stat", "usage_usec 5\nnr_periods 10\nnr_throttled 7\n");
  host.write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t212992\n");
  host.write("proc/net/softnet_stat", "00a1 0000000f 00000001\n00b2 00000001 00000000\n");
  ProcessLimits limits{
      .shared_memory_bytes = 64U << 20, .shared_memory_free_bytes = 64U << 20, .allowed_cpus = 1, .online_cpus = 64};
  limits.locked_memory_bytes = 8U << 20;
  golden::expect_text(checked(limits, true, host));
  limits.shared_memory_bytes = limits.shared_memory_free_bytes = kGib / 2;
  golden::expect_text(checked(limits, false, HostFolder()));
  EXPECT_EQ(checked(limits, false, HostFolder(), false).find("shared_memory"), std::string::npos);
}

TEST(HostChecks, AServersOwnLimitsAreNotThoseOfAJob) {
  const HostFolder host;
  host.write("proc/self/cgroup", "0::/server.slice\n");
  host.write("sys/fs/cgroup/server.slice/cpu.max", "150000 100000\n");
  ProcessLimits limits = good_limits();
  limits.locked_memory_bytes = 8U << 20;
  limits.allowed_cpus = 1;
  HostReport report;
  check_host(limits, {.rdma = true, .process_limits = false}, host.files(), report);
  for (const HostCheck& check : report.checks) {
    EXPECT_TRUE(check.check == "shared_memory" || check.check == "clock") << check.check;
  }
  EXPECT_EQ(report.checks.size(), 2U);
}

TEST(HostReports, AreComparedByTheirFacts) {
  std::vector<HostReport> hosts;
  for (const char* name : {"gpu01", "gpu02", "gpu03"}) {
    hosts.push_back({.host = name,
                     .facts = {{"address family", "IPv4"},
                               {"MTU of eth0", "9000"},
                               {"setting NCCL_ALGO", "Ring"},
                               {"interfaces", "eth0"}}});
  }
  EXPECT_TRUE(compare_hosts(hosts).empty());
  hosts[1].facts["MTU of eth0"] = "1500";
  hosts[1].facts["address family"] = "IPv6";
  hosts[2].add("clock", "", Outcome::kWarning, "not synchronized");
  hosts[2].add("interface", "eth0", Outcome::kFailed, "half duplex", "look at the cable");
  hosts[2].facts.erase("setting NCCL_ALGO");
  golden::expect_text(checks_text(compare_hosts(hosts)));
}

TEST(HostReports, SurviveJson) {
  HostReport report{.host = "gpu01", .facts = {{"MTU", "9000"}}};
  report.add("interface", "eth0", Outcome::kFailed, "down", "bring it up");
  const std::string json = report_json(report);
  golden::expect_text(json);
  const auto read = parse_report(json);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->host, "gpu01");
  EXPECT_EQ(read->facts, report.facts);
  ASSERT_EQ(read->checks.size(), 1U);
  EXPECT_EQ(read->checks[0].outcome, Outcome::kFailed);
  for (const char* wrong :
       {"", "{", "[]", "{}", R"({"host": 1, "facts": {}})", R"({"host": "a", "facts": {"MTU": 9000}})",
        R"({"schema": 2, "host": "a", "facts": {}, "checks": []})",
        R"({"schema": "1", "host": "a", "facts": {}, "checks": []})",
        R"({"schema": [1], "host": "a", "facts": {}, "checks": []})",
        R"({"schema": 1, "host": "a", "facts": {}, "checks": [{"outcome": "fine"}]})",
        R"([[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]])"}) {
    EXPECT_FALSE(parse_report(wrong)) << wrong;
  }
}

TEST(ThisHost, CanBeChecked) {
  const auto report = check_this_host({{"NCCL_IB_TIMEOUT", "99"}});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->failed());
  EXPECT_FALSE(report->host.empty());
}

}  // namespace
}  // namespace stalltrace::preflight
