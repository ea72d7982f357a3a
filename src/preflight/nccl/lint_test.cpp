// SPDX-License-Identifier: Apache-2.0
#include "preflight/nccl/lint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "preflight/nccl/variables.h"
#include "preflight/output.h"
#include "preflight/testing/host_folder.h"
#include "tests/support/golden_text.h"

namespace stalltrace::preflight {
namespace {

HostReport checked(const Environment& environment) {
  const HostFolder host;
  HostReport report;
  check_settings(Settings::read(environment, host.files()), report);
  return report;
}

Outcome outcome_of(const std::string& name, const std::string& value) {
  const HostReport report = checked({{name, value}});
  EXPECT_EQ(report.checks.size(), 1U) << name << "=" << value;
  return report.checks.empty() ? Outcome::kUnknown : report.checks.front().outcome;
}

TEST(NcclSettings, NothingIsFoundInWhatTheGuideAsksFor) {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<std::string, std::string>>{{"NCCL_SOCKET_IFNAME", "=eth0"},
                                                                  {"NCCL_DEBUG", "warn"},
                                                                  {"NCCL_DEBUG_SUBSYS", "INIT,NET"},
                                                                  {"NCCL_DEBUG_FILE", "/tmp/nccl.%h.%p"},
                                                                  {"NCCL_IB_HCA", "=mlx5_0:1"},
                                                                  {"NCCL_IB_TIMEOUT", "22"},
                                                                  {"NCCL_IB_GID_INDEX", "3"},
                                                                  {"NCCL_CROSS_NIC", "1"},
                                                                  {"NCCL_NET_PLUGIN", "none"},
                                                                  {"NCCL_SOCKET_NTHREADS", "0x4"},
                                                                  {"NCCL_VERSION", "2.21.5-1"},
                                                                  {"NCCL_HOME", "/opt/nccl"},
                                                                  {"NCCL_P2P_DISABLE", "0"},
                                                                  {"NCCL_TUNER_CONFIG_PATH", "/x"},
                                                                  {"NCCL_ALGO", ""},
                                                                  {"NCCL_COMM_ID", "10.0.0.1:4000"},
                                                                  {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                                  {"PATH", "/bin"}}) {
    EXPECT_EQ(outcome_of(name, value), Outcome::kOk) << name;
  }
}

TEST(NcclSettings, EachMistakeIsReported) {
  golden::expect_text(checks_text(checked({{"NCCL_SOCKET_IFNAM", "eth0"},
                                           {"NCCL_IB_DISABLE", "true"},
                                           {"NCCL_IB_TIMEOUT", "32"},
                                           {"NCCL_ALGO", "Ring,Tre"},
                                           {"NCCL_PROTO", "allreduce:^LL128;Simple"},
                                           {"NCCL_IB_HCA", "mlx5_0, mlx5_1"},
                                           {"NCCL_SOCKET_IFNAME", "^lo,^docker"},
                                           {"NCCL_IB_TC", "106 "},
                                           {"NCCL_IB_QPS_PER_CONNECTION", "99999999999999999999"},
                                           {"NCCL_NET_GDR_LEVEL", "sys"},
                                           {"NCCL_DEBUG_SUBSYS", "INIT, NETT"},
                                           {"NCCL_TOPO_FILE", "/nonexistent/topo.xml"},
                                           {"NCCL_DEBUG", "TRACE"},
                                           {"NCCL_DEBUG_FILE", "/shared/nccl.log"},
                                           {"NCCL_SOCKET_FAMILY", "AF_INET4"},
                                           {"NCCL_SOCKET_NTHREADS", "16"},
                                           {"NCCL_NSOCKS_PERTHREAD", "8"},
                                           {"NCCL_MIN_NCHANNELS", "32"},
                                           {"NCCL_MAX_NCHANNELS", "16"},
                                           {"NCCL_BUFFSIZE", "5000000"},
                                           {"NCCL_LL_THRESHOLD", "0"},
                                           {"NCCL_CROSS_NIC", " 1"},
                                           {"NCCL_BLOCKING_WAIT", "1"},
                                           {"NCCL_P2P_LEVEL", "NVL"},
                                           {"NCCL_MY_PLUGINS_OWN_SETTING", "1"},
                                           {"NCCL_CONF_FILE", "/nonexistent/nccl.conf"}})
                                      .checks));
}

TEST(NcclSettings, AListThatNamesNothingIsAWarning) {
  golden::expect_text(checks_text(checked({{"NCCL_IB_HCA", "="}, {"NCCL_SOCKET_IFNAME", "^"}}).checks));
  golden::expect_text(checks_text(checked({{"NCCL_IB_HCA", "^"}, {"NCCL_SOCKET_IFNAME", "^="}}).checks));
}

TEST(NcclSettings, FilesComeAfterTheEnvironment) {
  const HostFolder host;
  host.write("etc/nccl.conf", "NCCL_DEBUG=INFO\n#NCCL_ALGO=Tree\nNCCL_IB_TC=106\r\nnot a setting\nNCCL_CROSS_NIC =1\n");
  host.write("home/.nccl.conf", "NCCL_IB_TC=96\nNCCL_DEBUG=WARN\n");
  const std::string home = host.files().etc + "/../home";
  const Settings settings = Settings::read({{"NCCL_DEBUG", "VERSION"}, {"HOME", home}}, host.files());
  EXPECT_EQ(settings.value("NCCL_DEBUG"), "VERSION");
  EXPECT_EQ(settings.integer("NCCL_IB_TC", 0), 96);
  EXPECT_FALSE(settings.is_set("NCCL_ALGO"));
  HostReport report;
  check_settings(settings, report);
  EXPECT_TRUE(report.failed()) << "the blank before = is part of the name";
  EXPECT_EQ(report.facts.at("setting NCCL_IB_TC"), "96");
}

TEST(NcclSettings, FilesThatCouldBlockAreNotRead) {
  const HostFolder host;
  const std::string fifo = host.write("fifo", "");
  std::filesystem::remove(fifo);
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, std::string("/proc/self/environ"), std::string("/dev/zero")}) {
    EXPECT_EQ(Settings::read({{"NCCL_CONF_FILE", path}}, host.files()).missing_file(), "" + path);
  }
}

TEST(NcclSettings, TheTableHasEachVariableOnce) {
  const std::vector<std::string_view> names = all_variable_names();
  EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()).size(), names.size());
  for (const Variable& variable : documented_variables()) {
    EXPECT_LE(variable.low, variable.high) << variable.name;
    EXPECT_TRUE(variable.name.starts_with("NCCL_"));
  }
}

}  // namespace
}  // namespace stalltrace::preflight
