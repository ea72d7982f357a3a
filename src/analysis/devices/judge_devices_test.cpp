// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/devices/xid_catalogue.h"
#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "base/clock.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kDay = int64_t{86'400} * kNsPerSecond;
constexpr int64_t kBegin = int64_t{20'000} * kDay;
constexpr NodeId kLog = 900;
constexpr int32_t kPid = 4711;  // of rank 3, on node3

/// A log of node3's kernel, and NCCL's logs of four ranks on four nodes which all began the same 30 calls.
struct Incident {
  MemorySource source;
  bool job = true;
  int behind = -1;  // this rank did not begin the last call
  std::string lacks = "call_durations calls";
  std::string host = "node3.cluster";

  void kernel(KernelMessageKind kind, int32_t code, std::string device, int32_t pid, std::string text,
              int64_t time_ns = kBegin + 10 * kNsPerSecond) {
    KernelMessage row{.node_id = kLog, .timestamp_ns = time_ns, .kind = kind};
    row.code = code == 0 ? std::nullopt : std::optional(code);
    row.device = std::move(device);
    row.pid = pid;
    row.process = "python3";
    row.line = 12;
    row.file = "/evidence/kern.log";
    row.text = std::move(text);
    source.accept(std::move(row));
  }

  Report explained() {
    Node node{.node_id = kLog, .name = host.empty() ? "dmesg.txt" : host, .hostname = host};
    node.agent_version = "kernel_log";
    node.missing_evidence = lacks;
    source.accept(node);
    for (int32_t rank = 0; job && rank < 4; ++rank) {
      add_rank(rank);
    }
    const auto result = explain(source);
    EXPECT_TRUE(result);
    return result ? result->report : Report();
  }

 private:
  void add_rank(int32_t rank) {
    const auto id = static_cast<NodeId>(rank + 1);
    const std::string name = fmt::format("node{}", rank);
    source.accept(Node{.node_id = id,
                       .name = name,
                       .hostname = name,
                       .agent_version = "nccl_log",
                       .started_ns = kBegin,
                       .ended_ns = kBegin + 20 * kNsPerSecond,
                       .missing_evidence = std::string(kLacksDurations)});
    const int32_t pid = rank == 3 ? kPid : 100 + rank;
    Process process{.node_id = id, .pid = pid, .start_ns = kBegin};
    process.rank = rank;
    source.accept(process);
    Communicator comm{.node_id = id, .pid = pid, .comm_ptr = 1, .comm_id_hash = 7, .nccl_comm_hash = 7};
    comm.rank = rank;
    comm.nranks = 4;
    comm.created_ns = kBegin;
    source.accept(comm);
    for (int64_t number = 0; number < (rank == behind ? 29 : 30); ++number) {
      Collective row;
      row.event_id = make_event_id(id, static_cast<uint64_t>(number + 1));
      row.node_id = id;
      row.timestamp_ns = kBegin + number * 300 * kNsPerMs;
      row.completion = Completion::kUnobserved;
      row.seq = number;
      row.rank = rank;
      row.nranks = 4;
      row.comm_id_hash = 7;
      row.comm_ptr = 1;
      row.pid = pid;
      source.accept(row);
    }
    source.accept(LogLine{
        .node_id = id, .timestamp_ns = kBegin + 60 * kNsPerSecond, .pid = pid, .rank = rank, .kind = LogKind::kEnd});
  }
};

constexpr auto kXid = KernelMessageKind::kXid;
const std::string kGpu = "0000:3b:00";
const std::string kFallen = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus.";

TEST(DeviceErrors, AreJoinedToTheRankThatTheyName) {
  Incident incident;
  incident.behind = 3;
  incident.kernel(kXid, 79, kGpu, kPid, kFallen);
  incident.kernel(kXid, 45, kGpu, kPid, "NVRM: Xid (PCI:0000:3b:00): 45, pid=4711, name=python3, Ch 00000001");
  const Report report = incident.explained();
  ASSERT_EQ(report.findings.size(), 2U);
  const Finding& error = report.findings[0];
  EXPECT_EQ(error.cause, Cause::kDeviceError);
  EXPECT_EQ(error.severity, Severity::kCritical);
  EXPECT_EQ(error.culprit->rank, 3);
  EXPECT_EQ(error.culprit->node, "node3");
  EXPECT_EQ(error.culprit->pid, kPid);
  EXPECT_DOUBLE_EQ(error.confidence, 0.9);
  EXPECT_FALSE(error.cost_known);
  EXPECT_EQ(report.findings[1].cause, Cause::kMissingCollective);
  EXPECT_EQ(report.findings[1].evidence.back().kind, "kernel_message");
  expect_golden_text("device_error: a GPU of a rank that is behind", error);
}

/// 13, 31, 43 and 45 come from programs.
TEST(DeviceErrors, ThoseOfProgramsAreNotCalledBrokenHardware) {
  Incident incident;
  incident.kernel(kXid, 31, kGpu, kPid, "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, MMU Fault");
  incident.kernel(kXid, 43, kGpu, kPid, "NVRM: Xid (PCI:0000:3b:00): 43, pid=4711, name=python3, Ch 00000008");
  const Report report = incident.explained();
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].severity, Severity::kHigh);
  expect_golden_text("device_error: an error of the program", report.findings[0]);
  for (const int32_t number : {13, 31}) {
    EXPECT_EQ(meaning_of_xid(number).who, XidClass::kApplication);
  }
  for (const int32_t number : {43, 45}) {
    EXPECT_EQ(meaning_of_xid(number).who, XidClass::kConsequence);
  }
  EXPECT_EQ(meaning_of_xid(999).who, XidClass::kUndecided);
}

TEST(DeviceErrors, AnErrorThatFollowsNamesTheOneBefore) {
  Incident incident;
  incident.kernel(kXid, 45, kGpu, kPid,
                  "NVRM: Xid (PCI:0000:3b:00): 45, pid=4711, name=python3, Ch 00000001 caused by previous Xid 148");
  const Report report = incident.explained();
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].culprit->rank, 3);
  expect_golden_text("device_error: an Xid that is only named by the next", report.findings[0]);
}

TEST(DeviceErrors, OfOtherDriversAndTheHost) {
  constexpr auto kOther = KernelMessageKind::kOther;
  const auto finding_of = [&](std::string device, std::string text) {
    Incident incident;
    incident.kernel(kOther, 0, std::move(device), 0, std::move(text));
    const Report report = incident.explained();
    EXPECT_EQ(report.findings.size(), 1U);
    return report.findings.empty() ? Finding() : report.findings[0];
  };
  expect_golden_text("device_error: a reset of an AMD GPU",
                     finding_of("0000:c1:00.0", "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!"));
  expect_golden_text("device_error: a time-out of an AMD GPU",
                     finding_of("", "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=1"));
  expect_golden_text(
      "device_error: a network adapter",
      finding_of("0000:5e:00.0", "mlx5_core 0000:5e:00.0: poll_health:800:(pid 0): Fatal error 3 detected"));
  expect_golden_text("device_error: a panic", finding_of("", "Kernel panic - not syncing: Fatal exception"));
  Incident links;  // as at a restart
  links.kernel(kOther, 0, "0000:5e:00.0", 0, "mlx5_core 0000:5e:00.0 ens1np0: Link down");
  const Report report = links.explained();
  EXPECT_TRUE(report.findings.empty());
  golden::expect_text(fmt::format("{}", fmt::join(report.notes, "\n")));
}

TEST(DeviceErrors, WhatLostNothingIsANote) {
  Incident incident;
  incident.kernel(kXid, 63, kGpu, 0, "NVRM: Xid (PCI:0000:3b:00): 63, Row Remapper: New row marked for remapping");
  incident.kernel(kXid, 45, "0000:86:00", 1, "NVRM: Xid (PCI:0000:86:00): 45, pid=1, Ch 00000001");
  incident.kernel(kXid, 149, "0000:87:00", 0,
                  "NVRM: Xid (PCI:0000:87:00): 149, NETIR_LINK_EVT Nonfatal XC0 i0 Link 00");
  incident.kernel(KernelMessageKind::kSxid, 12'028, "0000:84:00.0", 0,
                  "SXid (PCI:0000:84:00.0): 12028, Non-fatal, Link 46");
  incident.kernel(KernelMessageKind::kPcieCorrected, 0, "0000:88:00.0", 0, "PCIe Bus Error: severity=Corrected");
  const Report report = incident.explained();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_THAT(report.notes, testing::Contains(testing::HasSubstr("Xid 63 of 0000:3b:00")));
  EXPECT_EQ(report.health(), std::nullopt);
}

TEST(DeviceErrors, OfAnotherTimeAreANote) {
  Incident before;
  before.kernel(kXid, 79, kGpu, kPid, kFallen, kBegin - 2 * kDay);
  const Report report = before.explained();
  EXPECT_TRUE(report.findings.empty());
  ASSERT_FALSE(report.notes.empty());
  golden::expect_text(report.notes.back());

  Incident elsewhere;  // of a host that is hours off UTC
  elsewhere.lacks = "call_durations calls time_zone";
  elsewhere.kernel(kXid, 79, kGpu, kPid, kFallen, kBegin - kDay / 4);
  EXPECT_EQ(elsewhere.explained().findings.size(), 1U);

  Incident untimed;
  untimed.lacks = "call_durations calls clock_times";
  untimed.kernel(kXid, 79, kGpu, kPid, kFallen, kBegin - 2 * kDay);
  const Report found = untimed.explained();
  ASSERT_EQ(found.findings.size(), 1U);
  golden::expect_text(found.findings[0].evidence.back().text);
}

TEST(DeviceErrors, WithoutAHostAProcessNumberHasToBeUnique) {
  Incident incident;
  incident.host = "";
  incident.kernel(kXid, 79, kGpu, kPid, kFallen);
  const Report report = incident.explained();
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].culprit->rank, 3);
  EXPECT_DOUBLE_EQ(report.findings[0].confidence, 0.6);
}

TEST(DeviceErrors, OneErrorOfManyDevicesIsOneFinding) {
  Incident alone;
  alone.job = false;
  for (int i = 0; i < 12; ++i) {
    alone.kernel(kXid, 74, fmt::format("0000:{:02x}:00", i), 0, "NVLink: fatal error detected on link 6");
  }
  alone.kernel(KernelMessageKind::kPcieUncorrected, 0, "0000:03:00.0", 0,
               "PCIe Bus Error: severity=Uncorrected (Fatal)");
  const Report report = alone.explained();
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].evidence[0].count, 12);
  EXPECT_THAT(report.findings[0].summary, testing::StartsWith("12 GPUs of node3.cluster ("));
  EXPECT_DOUBLE_EQ(report.findings[0].confidence, 0.4);
  EXPECT_EQ(report.nodes, 1);
}

TEST(DeviceErrors, ProcessesThatWereEndedForLackOfMemory) {
  Incident incident;
  incident.kernel(KernelMessageKind::kOutOfMemory, 0, "", kPid, "Killed process 4711 (python3) total-vm:1kB");
  incident.kernel(KernelMessageKind::kOutOfMemory, 0, "", 5, "Killed process 5 (sshd) total-vm:1kB");
  const Report report = incident.explained();
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kDeadRank);
  EXPECT_EQ(report.findings[0].culprit->rank, 3);
  EXPECT_THAT(report.notes, testing::Contains(testing::HasSubstr("pid 5 on node3")));
}

TEST(DeviceErrors, ALogWithoutAnyIsReported) {
  Incident incident;
  const Report report = incident.explained();
  EXPECT_TRUE(report.findings.empty());
  ASSERT_FALSE(report.notes.empty());
  golden::expect_text(report.notes.back());
}

}  // namespace
}  // namespace stalltrace::analysis
