// SPDX-License-Identifier: Apache-2.0
// Reports laid out as DCGM's DcgmiOutputTree(28, 60) does, with its messages.
#include <gtest/gtest.h>

#include "import/dcgm_health/health_report.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

std::string row(std::string_view left, std::string_view right = "") {
  return fmt::format("| {:<25} | {:<56} |\n", left, right);
}
const std::string kBorder = "+" + std::string(27, '-') + "+" + std::string(58, '-') + "+\n";

std::string report(std::string_view overall, const std::string& rows = "") {
  return kBorder + fmt::format("| {:<85}|\n", "Health Monitor Report") + "+" + std::string(27, '=') + "+" +
         std::string(58, '=') + "+\n" + row("Overall Health", overall) + rows + kBorder;
}

/// A GPU with an incident.
std::string gpu(std::string_view id, std::string_view system, std::string_view result,
                const std::vector<std::string>& message) {
  std::string text =
      row(fmt::format("-> {}", id), result) + row("   -> Errors") + row(fmt::format("      -> {}", system), result);
  for (const std::string& line : message) {
    text += row("", line);
  }
  return text;
}

std::vector<std::string> states_of(const std::string& text, uint64_t left_out = 0) {
  HealthReportReader reader;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    reader.take(std::string_view(text).substr(at, end - at), ++number);
    at = end + 1;
  }
  std::vector<std::string> out;
  const std::vector<HealthReport> reports = reader.finish();
  for (const HealthReport& one : reports) {
    for (const auto& [line, state] : one.gpus) {
      out.push_back(gpu_state_text(state));
    }
  }
  EXPECT_EQ(reader.left_out(), left_out);
  return out;
}

TEST(DcgmHealth, WhatMessagesMean) {
  const std::string text = report(
      "Failure",
      row("GPU") +
          gpu("0", "Memory system", "Failure",
              {"Detected 3 volatile double-bit ECC error(s) in GPU 0.",
               "Drain the GPU and reset it or reboot the node."}) +
          gpu("1", "Thermal system", "Warning",
              {"Detected clocks event due to thermal violation in GPU",
               "1. Verify that the cooling on this machine is"}) +
          gpu("2", "Thermal system", "Warning", {"Detected clock throttling due to thermal violation in", "GPU 2."}) +
          gpu("3", "Power system", "Warning", {"Detected clocks event due to power violation in GPU 3."}) +
          gpu("4", "Memory system", "Failure", {"GPU 4 had uncorrectable memory errors and row", "remapping failed."}) +
          gpu("5", "Memory system", "Warning", {"GPU 5 had memory errors and row remappings are pending"}) +
          gpu("6", "Memory system", "Failure", {"GPU had an uncontained error (XID 95)"}));
  EXPECT_EQ(states_of(text),
            (std::vector<std::string>{"gpu 0 ecc 3 has uncorrectable_ecc", "gpu 1 has sw_thermal",
                                      "gpu 2 has sw_thermal", "gpu 3 has power_cap", "gpu 4 has remap_failed",
                                      "gpu 5 has remap_pending", "gpu 6 has reset_required"}));
}

TEST(DcgmHealth, OtherIncidentsByTheirPart) {
  const std::string text = report(
      "Failure", row("NvSwitch") + gpu("0", "NVLINK system", "Failure", {"Detected fatal errors"}) + row("GPU") +
                     gpu("0", "PCIe system", "Warning", {"Detected more than 8 PCIe replays per minute for GPU 0"}) +
                     row("      -> NVLINK system", "Failure") + row("", "GPU 0's NvLink link 3 is currently down") +
                     gpu("1", "PCIe system", "Failure", {}) + gpu("2", "InfoROM system", "Failure", {"corrupt"}) +
                     gpu("3", "Memory system", "Failure", {"row remappings are pending"}) +
                     gpu("4", "Driver", "Healthy", {}));
  EXPECT_EQ(states_of(text, 1),
            (std::vector<std::string>{"gpu 0 has other_warning nvlink_failed", "gpu 1 has pcie_failed",
                                      "gpu 2 has other_failed", "gpu 3 has remap_pending other_failed", "gpu 4 has"}));
}

TEST(DcgmHealth, WhatIsNone) {
  EXPECT_TRUE(states_of(report("Healthy")).empty());
  EXPECT_TRUE(states_of(row("GPU") + gpu("0", "PCIe system", "Failure", {})).empty()) << "no head";
  EXPECT_TRUE(states_of(report("Healthy") + row("GPU") + gpu("0", "PCIe system", "Failure", {})).empty())
      << "behind it";
  EXPECT_TRUE(states_of(report("Failure", row("GPU") + gpu("0x", "PCIe system", "Failure", {})), 1).empty());
  EXPECT_TRUE(states_of(report("Failure", row("      -> PCIe system", "Failure") + row("", "x"))).empty());
  for (const std::string_view line : {"|", "| |", "| | |", "|  |  |", "| -> | |", "|   | -> |", "| x"}) {
    EXPECT_TRUE(states_of(report("Failure", std::string(line) + "\n")).empty()) << line;
  }
}

TEST(DcgmHealth, AFileIsANode) {
  EvidenceFolder folder;
  const std::string path = folder.write(
      "health.txt",
      "epilogue\n" + report("Healthy") +
          report("Warning", row("GPU") + gpu("2", "Thermal system", "Warning",
                                             {"Detected clocks event due to thermal violation in GPU 2."})));
  const std::string cut = folder.write("cut.txt", report("Healthy").substr(0, 300));
  EXPECT_EQ(detect(path).value(), std::vector<Format>{Format::kDcgmHealth});
  EXPECT_EQ(detect(cut).value(), std::vector<Format>{Format::kDcgmHealth});
  EXPECT_EQ(detect(folder.write("old.txt", "Health Monitor Report\n+--+\n| Overall Health:   Healthy |\n")).value(),
            std::vector<Format>{Format::kDcgmi});
  MemorySource source;
  std::vector<std::string> notes;
  const std::vector<std::string> paths{path, cut};
  const Result<Summary> summary =
      import_dcgm_health(paths, source, [&](const std::string& note) { notes.push_back(note); });
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->files, 1U);
  EXPECT_EQ(summary->nodes, 2U);
  EXPECT_EQ(summary->rows, 1U);
  EXPECT_EQ(notes.size(), 1U);
  const std::vector<LogLine> heads = lines_of(source, LogKind::kVersion);
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_EQ(heads[0].text, "dcgmi health: Healthy, 0 GPUs with incidents");
  EXPECT_EQ(heads[1].text, "dcgmi health: Warning, 1 GPU with incidents");
  EXPECT_LT(heads[0].timestamp_ns, heads[1].timestamp_ns);
  const std::vector<LogLine> warnings = lines_of(source, LogKind::kWarning);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].text, "gpu 2 has sw_thermal");
  EXPECT_EQ(warnings[0].line, 12);
  EXPECT_TRUE(lacks(source.nodes().value()[0], kLacksTimes));
}

}  // namespace
}  // namespace stalltrace::import
