// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "base/clock.h"
#include "model/events/imported/gpu_state.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kShownNs = int64_t{20'000} * 86'400 * kNsPerSecond;
constexpr NodeId kFile = 800;

/// Output of nvidia-smi, and where asked for two ranks of a job's log.
struct Shown {
  MemorySource source;
  int64_t line = 0;

  void begin(std::string text = "nvidia-smi: 8 GPUs") { add(LogKind::kVersion, std::move(text)); }
  void gpu(std::vector<GpuCondition> conditions, std::vector<int32_t> pids = {}) {
    GpuState state{.device = fmt::format("0000:{:02x}:00", line), .sm_mhz = 345, .max_sm_mhz = 1980, .temperature = 91};
    state.uncorrectable = std::ranges::count(conditions, GpuCondition::kUncorrectableEcc);
    state.pids = std::move(pids);
    state.conditions = std::move(conditions);
    add(LogKind::kWarning, gpu_state_text(state));
  }
  void ranks() {
    Node node{.node_id = 1, .name = "node1", .hostname = "node1", .agent_version = "nccl_log", .started_ns = kShownNs};
    node.missing_evidence = kLacksDurations;
    source.accept(node);
    for (int32_t rank = 0; rank < 2; ++rank) {
      Process process{.node_id = 1, .pid = 100 + rank, .start_ns = kShownNs};
      process.rank = rank;
      source.accept(process);
    }
  }
  Report explained(std::string_view format = kGpuStateFormat) {
    Node node{.node_id = kFile, .name = "smi.txt", .started_ns = kShownNs, .ended_ns = kShownNs};
    node.agent_version = format;
    node.missing_evidence = "call_durations calls time_zone";
    source.accept(node);
    const auto result = explain(source);
    EXPECT_TRUE(result);
    return result ? result->report : Report();
  }

 private:
  void add(LogKind kind, std::string text) {
    LogLine row{.node_id = kFile, .timestamp_ns = kShownNs, .kind = kind, .line = ++line};
    row.text = std::move(text);
    source.accept(std::move(row));
  }
};

TEST(GpuStates, AThrottledGpuOfARank) {
  Shown shown;
  shown.ranks();
  shown.begin();
  shown.gpu({GpuCondition::kHwSlowdown, GpuCondition::kHwThermal}, {101});
  const Report report = shown.explained();
  ASSERT_EQ(report.findings.size(), 1U);
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.cause, Cause::kSlowDevice);
  EXPECT_EQ(finding.severity, Severity::kHigh);
  EXPECT_EQ(finding.culprit->rank, 1);
  EXPECT_EQ(finding.culprit->node, "node1");
  expect_golden_text("gpu states: throttled", finding);
}

TEST(GpuStates, ABrokenGpuAlone) {
  Shown shown;
  shown.begin();
  shown.gpu({GpuCondition::kUncorrectableEcc, GpuCondition::kResetRequired}, {5});
  const Report report = shown.explained();
  ASSERT_EQ(report.findings.size(), 1U);
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.cause, Cause::kDeviceError);
  EXPECT_EQ(finding.severity, Severity::kMedium);
  EXPECT_EQ(finding.culprit->node, "smi.txt");
  EXPECT_FALSE(finding.culprit->rank);
  expect_golden_text("gpu states: broken", finding);
}

TEST(GpuStates, WhatIsUsualIsANote) {
  Shown shown;
  shown.begin();
  shown.gpu({GpuCondition::kPowerCap});
  shown.gpu({GpuCondition::kRemapPending});
  shown.gpu({});
  const Report report = shown.explained();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(report.health(), std::nullopt);
  ASSERT_FALSE(report.notes.empty());
  golden::expect_text(report.notes.back());
}

TEST(GpuStates, OfDcgmsHealthChecks) {
  Shown shown;
  shown.begin("dcgmi health: Failure, 4 GPUs with incidents");
  shown.gpu({GpuCondition::kOtherWarning});
  shown.gpu({GpuCondition::kNvlinkFailed});
  shown.gpu({GpuCondition::kSwThermal});
  shown.gpu({GpuCondition::kPcieFailed, GpuCondition::kOtherFailed});
  const Report report = shown.explained(kGpuHealthFormat);
  ASSERT_EQ(report.findings.size(), 3U);
  EXPECT_EQ(report.health(), false);
  std::vector<Cause> causes;
  for (const Finding& finding : report.findings) {
    causes.push_back(finding.cause);
    EXPECT_EQ(finding.severity, Severity::kMedium);
    ASSERT_GE(finding.evidence.size(), 2U);
  }
  EXPECT_EQ(std::ranges::count(causes, Cause::kDeviceError), 2);
  EXPECT_EQ(std::ranges::count(causes, Cause::kSlowDevice), 1);
  ASSERT_FALSE(report.notes.empty());
  golden::expect_text(report.findings[0].evidence[1].text);
  golden::expect_text(report.notes.back());
}

TEST(GpuStates, TheNewestReportCounts) {
  Shown shown;
  shown.begin();
  shown.gpu({GpuCondition::kHwThermal});
  shown.begin();
  shown.gpu({});
  EXPECT_TRUE(shown.explained().findings.empty());
}

}  // namespace
}  // namespace stalltrace::analysis
