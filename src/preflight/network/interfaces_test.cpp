// SPDX-License-Identifier: Apache-2.0
#include "preflight/network/interfaces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "model/events/port_counters.h"
#include "preflight/network/infiniband.h"
#include "preflight/network/interface_checks.h"
#include "preflight/output.h"
#include "preflight/testing/host_folder.h"
#include "tests/support/golden_text.h"

namespace stalltrace::preflight {
namespace {

InterfaceAddress v4(const std::string& name, const std::string& address = "10.0.0.1") {
  return {.name = name, .running = true, .loopback = name == "lo", .address = address};
}
InterfaceAddress v6(const std::string& name, const std::string& address) {
  return {.name = name,
          .ipv6 = true,
          .running = true,
          .loopback = name == "lo",
          .loopback_v6 = address == "::1",
          .address = address};
}

std::string chosen(const std::vector<InterfaceAddress>& all, std::string_view setting = "",
                   std::string_view family = "") {
  std::string text;
  for (const InterfaceAddress& one : choose_interfaces(all, setting, family).addresses) {
    text += (text.empty() ? "" : " ") + one.name + "@" + one.address;
  }
  return text;
}

TEST(Interfaces, AreChosenAsNcclDoes) {
  const std::vector all{v4("lo", "127.0.0.1"),   v4("docker0", "172.17.0.1"), v4("eth0"),
                        v4("eth10", "10.0.1.1"), v6("eth0", "fd00::1"),       v6("lo", "::1"),
                        v6("eth2", "fe80::1")};
  EXPECT_EQ(chosen(all), "eth0@10.0.0.1 eth10@10.0.1.1 eth2@fe80::1");
  EXPECT_EQ(chosen(all, "eth0"), "eth0@10.0.0.1");
  EXPECT_EQ(chosen(all, "eth1"), "eth10@10.0.1.1") << "a prefix";
  EXPECT_EQ(chosen(all, "=eth1"), "");
  EXPECT_EQ(chosen(all, "=eth0,eth10"), "eth0@10.0.0.1 eth10@10.0.1.1");
  EXPECT_EQ(chosen(all, "^docker,lo,eth1"), "eth0@10.0.0.1 eth2@fe80::1");
  EXPECT_EQ(chosen(all, "^=docker0,lo,eth0,eth2"), "eth10@10.0.1.1");
  EXPECT_EQ(chosen(all, "eth0", "AF_INET6"), "eth0@fd00::1");
  EXPECT_EQ(chosen(all, "lo", "AF_INET6"), "") << "::1 is left out";
  EXPECT_EQ(chosen(all, "x"), chosen(all)) << "one character is no setting";
  EXPECT_EQ(chosen({v4("lo", "127.0.0.1"), v4("docker0")}), "docker0@10.0.0.1");
  EXPECT_EQ(chosen({v4("eth0"), v4("ib0", "10.9.0.1")}), "ib0@10.9.0.1");
  InterfaceAddress down = v4("eth0");
  down.running = false;
  EXPECT_EQ(chosen({v4("lo", "127.0.0.1"), down}), "lo@127.0.0.1");
}

std::string checked(const std::vector<InterfaceAddress>& all, const Environment& environment, const HostFolder& host) {
  HostReport report;
  check_interfaces(Settings::read(environment, host.files()), all, host.files(), report);
  return checks_text(report.checks);
}

TEST(Interfaces, ThatNoOtherNodeReachesFail) {
  const HostFolder host;
  golden::expect_text(checked({v4("lo", "127.0.0.1")}, {}, host));
  golden::expect_text(checked({v4("eth0"), v4("lo", "127.0.0.1")}, {{"NCCL_SOCKET_IFNAME", "ens"}}, host));
  golden::expect_text(checked({v4("docker0", "172.17.0.1"), v4("lo", "127.0.0.1")}, {}, host));
  golden::expect_text(checked({}, {}, host));
  golden::expect_text(checked({v4("lo", "127.0.0.1")}, {{"NCCL_SOCKET_IFNAME", "lo"}}, host));
  golden::expect_text(checked({v4("br-4f1a2b", "172.18.0.1"), v4("lo", "127.0.0.1")}, {}, host));
  golden::expect_text(checked({v4("eth0"), v4("lo", "127.0.0.1")}, {{"NCCL_SOCKET_IFNAME", "=eth0,eth1"}}, host));
}

TEST(Interfaces, WithErrorsOrOfTwoKindsAreReported) {
  const HostFolder host;
  host.write("sys/class/net/eth0/mtu", "9000\n");
  host.write("sys/class/net/eth1/mtu", "1500\n");
  host.write("sys/class/net/eth0/speed", "100000\n");
  host.write("sys/class/net/eth1/speed", "-1\n");
  host.write("sys/class/net/eth1/duplex", "half\n");
  host.write("sys/class/net/eth0/statistics/rx_crc_errors", "17\n");
  host.write("sys/class/net/eth0/statistics/tx_errors", "0\n");
  golden::expect_text(checked({v4("eth0"), v4("eth1", "10.0.1.1"), v6("eth2", "fe80::1")}, {}, host));
}

TEST(Interfaces, PacketsThatTheirHostDropsAreAWarning) {
  const HostFolder host;
  const std::string counters = "sys/class/net/eth0/statistics/";
  host.write(counters + "rx_packets", "1000000\n");
  host.write(counters + "rx_dropped", "999\n");
  EXPECT_EQ(checked({v4("eth0")}, {}, host), checked({v4("eth0")}, {}, HostFolder())) << "as of a switch's own packets";
  host.write(counters + "rx_dropped", "1000\n");
  host.write(counters + "tx_dropped", "3\n");
  golden::expect_text(checked({v4("eth0")}, {}, host));
}

void add_port(const HostFolder& host, const std::string& device, const std::string& state, const std::string& rate) {
  const std::string folder = "sys/class/infiniband/" + device + "/ports/1/";
  host.write(folder + "state", state);
  host.write(folder + "phys_state", state.starts_with("4") ? "5: LinkUp\n" : "3: Disabled\n");
  host.write(folder + "rate", rate);
  host.write(folder + "link_layer", "InfiniBand\n");
}

std::string ports_checked(const HostFolder& host, const Environment& environment) {
  HostReport report;
  check_infiniband(Settings::read(environment, host.files()), host.files(), report);
  return checks_text(report.checks);
}

TEST(InfinibandPorts, AreSelectedAsNcclDoes) {
  const auto selected = [](const std::string& device, int port, std::string_view setting) {
    return is_selected({.device = device, .port = port}, setting);
  };
  EXPECT_TRUE(selected("mlx5_0", 1, ""));
  EXPECT_TRUE(selected("mlx5_10", 1, "mlx5_1"));
  EXPECT_FALSE(selected("mlx5_10", 1, "=mlx5_1"));
  EXPECT_TRUE(selected("mlx5_1", 2, "=mlx5_0:1,mlx5_1:2"));
  EXPECT_FALSE(selected("mlx5_1", 1, "=mlx5_0:1,mlx5_1:2"));
  EXPECT_TRUE(selected("mlx5_0", 2, "=mlx5_0::0:0"));
  EXPECT_FALSE(selected("mlx5_1", 1, "^=mlx5_1"));
  EXPECT_TRUE(selected("mlx5_0", 1, "^=mlx5_1"));
  EXPECT_FALSE(selected("mlx5_0", 1, "^")) << "an empty list is all, and ^ turns it round";
}

TEST(InfinibandPorts, AListWithoutAnEntryIsEmpty) {
  const HostFolder host;
  add_port(host, "mlx5_0", "4: ACTIVE\n", "400 Gb/sec (4X NDR)\n");
  for (const char* all : {"=", "=,", ","}) {
    EXPECT_EQ(ports_checked(host, {{"NCCL_IB_HCA", all}}), ports_checked(host, {})) << all;
  }
  for (const char* none : {"^", "^="}) {
    HostReport report;
    check_infiniband(Settings::read({{"NCCL_IB_HCA", none}}, host.files()), host.files(), report);
    EXPECT_TRUE(report.failed()) << none << " excludes all";
  }
}

TEST(InfinibandPorts, ThatAreDownOrCountErrorsAreReported) {
  const HostFolder host;
  add_port(host, "mlx5_0", "4: ACTIVE\n", "400 Gb/sec (4X NDR)\n");
  add_port(host, "mlx5_1", "4: ACTIVE\n", "200 Gb/sec (2X NDR)\n");
  add_port(host, "mlx5_10", "1: DOWN\n", "10 Gb/sec (4X SDR)\n");
  host.write("sys/class/infiniband/mlx5_1/ports/1/counters/symbol_error", "12\n");
  host.write("sys/class/infiniband/mlx5_1/ports/1/counters/port_xmit_data", "99\n");
  golden::expect_text(ports_checked(host, {}));
  golden::expect_text(ports_checked(host, {{"NCCL_IB_HCA", "mlx5_1"}}));
  golden::expect_text(ports_checked(host, {{"NCCL_IB_HCA", "=mlx5_0"}, {"NCCL_IB_DISABLE", "1"}}));
  golden::expect_text(ports_checked(host, {{"NCCL_IB_HCA", "rocep1"}}));
  golden::expect_text(ports_checked(host, {{"NCCL_IB_HCA", "=mlx5_10"}}));
  golden::expect_text(ports_checked(host, {{"NCCL_IB_HCA", "=mlx5_0,mlx5_7"}}));
  EXPECT_EQ(ports_checked(host, {{"NCCL_IB_DISABLE", "1"}, {"NCCL_NET", "gIB"}}), "0 checks failed, 0 warnings.\n");
  golden::expect_text(ports_checked(HostFolder(), {{"NCCL_NET", "ib"}}));
  const HostFolder efa;
  add_port(efa, "rdmap0", "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n");
  efa.write("sys/class/infiniband/rdmap0/ports/1/link_layer", "Unspecified\n");
  golden::expect_text(ports_checked(efa, {}));
  EXPECT_EQ(ports_checked(HostFolder(), {}), "0 checks failed, 0 warnings.\n");
  golden::expect_text(ports_checked(HostFolder(), {{"NCCL_IB_HCA", "mlx5"}}));
}

TEST(InfinibandPorts, EachErrorCounterHasItsOwnMeaningAndAction) {
  std::set<std::string_view> meanings;
  size_t errors = 0;
  for (const PortCounterName& counter : port_counter_names()) {
    const HostFolder host;
    add_port(host, "mlx5_0", "4: ACTIVE\n", "400 Gb/sec (4X NDR)\n");
    host.write("sys/class/infiniband/mlx5_0/ports/1/hw_counters/" + std::string(counter.name), "7\n");
    HostReport report;
    check_infiniband(Settings::read({}, host.files()), host.files(), report);
    const auto found = std::ranges::find(report.checks, "infiniband_errors", &HostCheck::check);
    ASSERT_EQ(found != report.checks.end(), counter.kind == PortCounterKind::kError) << counter.name;
    if (found != report.checks.end()) {
      ++errors;
      meanings.insert(counter.meaning);
      EXPECT_NE(found->detail.find(std::string(counter.name) + " 7 "), std::string::npos) << found->detail;
      EXPECT_NE(found->detail.find(counter.meaning), std::string::npos) << found->detail;
      EXPECT_NE(found->remedy.find(counter.action), std::string::npos) << found->remedy;
      EXPECT_GT(counter.action.size(), size_t{10}) << counter.name;
    }
  }
  EXPECT_EQ(meanings.size(), errors) << "two counters have one meaning";
}

TEST(InfinibandPorts, CountersInBothFoldersAreReadAndThoseThatAreZeroLeftOut) {
  const HostFolder host;
  add_port(host, "mlx5_0", "4: ACTIVE\n", "400 Gb/sec (4X NDR)\n");
  const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
  host.write(port + "counters/link_downed", "1\n");
  host.write(port + "counters/symbol_error", "0\n");
  host.write(port + "counters/port_xmit_wait", "5000\n");
  host.write(port + "hw_counters/local_ack_timeout_err", "42\n");
  host.write(port + "hw_counters/out_of_sequence", "9\n");
  golden::expect_text(ports_checked(host, {}));
}

}  // namespace
}  // namespace stalltrace::preflight
