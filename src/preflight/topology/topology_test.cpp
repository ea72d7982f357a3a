// SPDX-License-Identifier: Apache-2.0
#include "preflight/topology/topology.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "preflight/output.h"
#include "preflight/testing/host_folder.h"
#include "tests/support/golden_text.h"

namespace stalltrace::preflight {
namespace {

/// A PCI device at a path below /sys/devices, such as "pci0000:00/0000:00:01.0/0000:01:00.0".
void add_device(const HostFolder& host, const std::string& path, const std::string& type, const std::string& vendor,
                int numa_node) {
  const std::string folder = "sys/devices/" + path + "/";
  const std::string real = host.write(folder + "class", type + "\n");
  host.write(folder + "vendor", vendor + "\n");
  host.write(folder + "numa_node", std::to_string(numa_node) + "\n");
  const std::string address = std::filesystem::path(path).filename();
  const std::filesystem::path bus = std::filesystem::path(host.write("sys/bus/pci/devices/.made", "")).parent_path();
  std::filesystem::create_directory_symlink(std::filesystem::path(real).parent_path(), bus / address);
}

void add_card(const HostFolder& host, const std::string& path, const std::string& name, int numa_node) {
  add_device(host, path, "0x020700", "0x15b3", numa_node);
  const std::string made = host.write("sys/class/infiniband/" + name + "/made", "");
  std::filesystem::create_directory_symlink(std::filesystem::path(host.files().sys) / "devices" / path,
                                            std::filesystem::path(made).parent_path() / "device");
}

constexpr const char* kGpuClass = "0x030200";
constexpr const char* kNvidia = "0x10de";

/// Two sockets, each with a switch that has two GPUs and a card; and a GPU that is alone on the second socket's bridge.
void fill(const HostFolder& host) {
  const std::string one = "pci0000:00/0000:00:01.0/0000:01:00.0/";
  const std::string two = "pci0000:80/0000:80:01.0/0000:81:00.0/";
  add_device(host, one + "0000:02:00.0/0000:03:00.0", kGpuClass, kNvidia, 0);
  add_device(host, one + "0000:02:01.0/0000:04:00.0", kGpuClass, kNvidia, 0);
  add_card(host, one + "0000:02:02.0/0000:05:00.0", "mlx5_0", 0);
  add_device(host, two + "0000:82:00.0/0000:83:00.0/0000:84:00.0/0000:85:00.0", kGpuClass, kNvidia, 1);
  add_card(host, two + "0000:82:01.0/0000:86:00.0", "mlx5_1", 1);
  add_device(host, "pci0000:c0/0000:c0:01.0/0000:c1:00.0", kGpuClass, kNvidia, 1);
  add_device(host, "pci0000:00/0000:00:1f.0", "0x060100", "0x8086", 0);
}

std::string checked(const Topology& topology) {
  HostReport report;
  check_topology(topology, report);
  std::string facts;
  for (const auto& [name, value] : report.facts) {
    facts += name + ": " + value + "\n";
  }
  return topology_text(topology) + checks_text(report.checks) + facts;
}

TEST(Topology, OfSysfsNamesWhatIsBetweenDevices) {
  const HostFolder host;
  fill(host);
  const Topology topology = read_sysfs_topology(host.files(), {});
  golden::expect_text(checked(topology));
  HostReport report{.host = "gpu01"};
  report.topology = topology;
  golden::expect_text(report_json(report));
}

TEST(Topology, AGpuFarFromAllCardsIsNamed) {
  const HostFolder host;
  add_device(host, "pci0000:00/0000:00:01.0/0000:01:00.0", kGpuClass, kNvidia, 0);
  add_device(host, "pci0000:80/0000:80:01.0/0000:81:00.0", kGpuClass, kNvidia, 1);
  add_card(host, "pci0000:00/0000:00:02.0/0000:02:00.0", "mlx5_0", 0);
  golden::expect_text(checked(read_sysfs_topology(host.files(), {})));
  const HostFolder none;
  EXPECT_EQ(checked(read_sysfs_topology(none.files(), {"eth0"})), "0 checks failed, 0 warnings.\n");
}

constexpr std::string_view kDump = R"(<?xml version="1.0"?>
<system version="1">
  <cpu numaid="0" affinity="00ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:03:00.0" class="0x030200"><gpu dev="0" sm="80" rank="0" gdr="1">
        <nvlink target="0000:04:00.0" count="4" tclass="0x030200"/></gpu></pci>
      <pci busid="0000:04:00.0" class="0x030200"><gpu dev="1" sm="80" rank="1" gdr="1">
        <nvlink target="0000:03:00.0" count="4" tclass="0x030200"/></gpu></pci>
      <pci busid="0000:05:00.0" class="0x020700"><nic><net name="mlx5_0" dev="0" speed="200000" port="1"/></nic></pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64">
    <pci busid="0000:83:00.0" class="0x030200"><gpu dev="2" sm="80" rank="2" gdr="1"/></pci>
  </cpu>
</system>
)";

TEST(Topology, OfNcclsDumpHasNvLink) {
  const auto topology = parse_nccl_topology(kDump);
  ASSERT_TRUE(topology) << topology.error().what;
  golden::expect_text(checked(*topology));
}

TEST(Topology, NamesOfADumpDoNotReachTheTerminalAsTheyAre) {
  const auto topology = parse_nccl_topology(
      "<system><cpu numaid=\"0\"><pci busid=\"a\"><gpu dev=\"0\"/></pci><pci busid=\"b\"><nic><net "
      "name=\"\x1b]0;\x07\" gdr=\"1\"/></nic></pci></cpu></system>");
  ASSERT_TRUE(topology);
  ASSERT_EQ(topology->devices.size(), 2U);
  EXPECT_NE(topology->devices[1].name.find('\x1b'), std::string::npos);
  EXPECT_EQ(topology_text(*topology).find('\x1b'), std::string::npos);
}

TEST(Topology, GpusAtAnNvSwitchReachEachOther) {
  const auto topology = parse_nccl_topology(
      R"(<system><cpu numaid="0"><pci busid="a"><gpu dev="0"><nvlink target="s1" count="12" tclass="0x068000"/></gpu></pci></cpu>)"
      R"(<cpu numaid="1"><pci busid="b"><gpu dev="1"><nvlink target="s2" count="12" tclass="0x068000"/></gpu></pci></cpu></system>)");
  ASSERT_TRUE(topology);
  EXPECT_EQ(path_between(topology->devices[0], topology->devices[1]), PciPath::kNvLink);
}

TEST(Topology, OtherFilesAreRefused) {
  for (const char* wrong :
       {"", "text", "<graphs></graphs>", "<system>", "<system><cpu numaid=0></cpu></system>", "<system></cpu>",
        "<system><cpu numaid=\"0></cpu></system>", "<system", "</system>", "<system><>"}) {
    const auto topology = parse_nccl_topology(wrong);
    EXPECT_FALSE(topology) << wrong;
  }
  std::string deep = "<system>";
  for (int i = 0; i < 1000; ++i) {
    deep += "<pci busid=\"a\">";
  }
  EXPECT_FALSE(parse_nccl_topology(deep));
}

TEST(Topology, ADumpThatASettingNamesIsRead) {
  const HostFolder host;
  fill(host);
  HostReport report;
  const auto of = [&](const std::string& path) {
    return read_topology(Settings::read({{"NCCL_TOPO_DUMP_FILE", path}}, host.files()), host.files(), {}, report);
  };
  EXPECT_EQ(of(host.write("dump.xml", std::string(kDump))).devices.size(), 4U);
  EXPECT_TRUE(report.checks.empty());
  EXPECT_EQ(of("/nonexistent").devices.size(), 6U) << "it will be written";
  EXPECT_TRUE(report.checks.empty());
  EXPECT_EQ(of(host.write("other.xml", "<graphs/>")).devices.size(), 6U);
  ASSERT_EQ(report.checks.size(), 1U);
  EXPECT_EQ(report.checks[0].outcome, Outcome::kUnknown);
}

}  // namespace
}  // namespace stalltrace::preflight
