// SPDX-License-Identifier: Apache-2.0
// Reports in the form of nvidia-smi -q of drivers 550 and 565; made up, with few of its lines.
#include <gtest/gtest.h>

#include "import/nvidia_smi/gpu_report.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

const std::string kHead =
    "\n==============NVSMI LOG==============\n\nTimestamp                                 : Tue May  5 10:00:03 2026\n"
    "Driver Version                            : 565.57.01\nCUDA Version                              : 12.7\n\n"
    "Attached GPUs                             : 2\n";

std::string gpu_text(std::string_view address, std::string_view thermal, std::string_view ecc = "0",
                     std::string_view processes = "    Processes                             : None\n") {
  return fmt::format(
      "GPU {}\n    Product Name                          : NVIDIA H100 80GB HBM3\n    GPU Reset Status\n"
      "        Reset Required                    : No\n    GPU Recovery Action                   : None\n"
      "    Clocks Event Reasons\n        Idle                              : Not Active\n"
      "        SW Power Cap                      : Not Active\n        HW Slowdown                       : {}\n"
      "            HW Thermal Slowdown           : {}\n            HW Power Brake Slowdown       : Not Active\n"
      "        SW Thermal Slowdown               : Not Active\n    ECC Errors\n        Volatile\n"
      "            SRAM Uncorrectable Parity     : 0\n            DRAM Uncorrectable            : {}\n"
      "        Aggregate\n            DRAM Uncorrectable            : 7\n    Remapped Rows\n"
      "        Pending                           : No\n        Remapping Failure Occurred        : No\n"
      "    Temperature\n        GPU Current Temp                  : 91 C\n    Clocks\n"
      "        SM                                : 345 MHz\n    Max Clocks\n"
      "        SM                                : 1980 MHz\n{}",
      address, thermal, thermal, ecc, processes);
}

const std::string kProcess =
    "    Processes\n        GPU instance ID                   : N/A\n        Process ID                        : 4711\n"
    "            Type                          : C\n            Name                          : python3\n";

std::vector<std::string> states_of(const std::string& text) {
  GpuReportReader reader;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    reader.take(std::string_view(text).substr(at, end - at), ++number);
    at = end + 1;
  }
  std::vector<std::string> out;
  const std::vector<GpuReport> reports = reader.finish();
  for (const GpuReport& report : reports) {
    for (const auto& [line, gpu] : report.gpus) {
      out.push_back(gpu_state_text(gpu));
    }
  }
  return out;
}

TEST(NvidiaSmi, ConditionsOfGpus) {
  EXPECT_EQ(states_of(kHead + gpu_text("00000000:18:00.0", "Not Active") +
                      gpu_text("00000000:2A:00.0", "Active", "3", kProcess)),
            (std::vector<std::string>{"gpu 0000:18:00 sm 345 max 1980 temperature 91 has",
                                      "gpu 0000:2a:00 sm 345 max 1980 temperature 91 ecc 3 pid 4711 has hw_slowdown "
                                      "hw_thermal uncorrectable_ecc"}));
  EXPECT_EQ(
      states_of(kHead +
                "GPU 00000000:18:00.0\n    GPU Reset Status\n        Reset Required                    : Yes\n"
                "    GPU Recovery Action                   : Reset\n    Clocks Throttle Reasons\n"
                "        SW Power Cap                      : Active\n"
                "            HW Power Brake Slowdown       : Active\n"
                "        SW Thermal Slowdown               : Active\n    Remapped Rows\n"
                "        Pending                           : Yes\n        Remapping Failure Occurred        : Yes\n"),
      std::vector<std::string>{
          "gpu 0000:18:00 has reset_required power_cap hw_power_brake sw_thermal remap_pending remap_failed"});
}

TEST(NvidiaSmi, WhatIsNone) {
  for (const std::string_view text :
       {"", "GPU 00000000:18:00.0\n    Clocks\n", "===== NVSMI LOG =====\nGPU 0\nGPU 0000000x:18:00.0\n",
        "===== NVSMI LOG =====\n    Clocks Event Reasons\n        HW Slowdown   : Active\n"}) {
    EXPECT_EQ(states_of(std::string(text)), std::vector<std::string>()) << text;
  }
  EXPECT_EQ(states_of("===== NVSMI LOG =====\nGPU 00000000:18:00.0\n    Clocks\n        SM : 99999999999 MHz\n"),
            std::vector<std::string>{"gpu 0000:18:00 has"});
}

TEST(NvidiaSmi, StatesAsTextAndBack) {
  GpuState state{.device = "0000:18:00", .sm_mhz = 345, .max_sm_mhz = 1980, .temperature = 91, .uncorrectable = 2};
  state.pids = {4711, 4712};
  state.conditions = {GpuCondition::kHwSlowdown, GpuCondition::kUncorrectableEcc};
  const std::string text = gpu_state_text(state);
  const auto read = gpu_state_from_text(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(gpu_state_text(*read), text);
  for (const std::string_view other :
       {"", "gpu", "gpu x", "has", "gpu x has y", "gpu x pid -5 has", "gpu x sm y has"}) {
    EXPECT_FALSE(gpu_state_from_text(other)) << other;
  }
}

TEST(NvidiaSmi, AFileIsANode) {
  EvidenceFolder folder;
  const std::string path = folder.write("smi.txt", kHead + gpu_text("00000000:18:00.0", "Active"));
  const std::string none = folder.write("none.txt", kHead);
  EXPECT_EQ(detect(path).value(), std::vector<Format>{Format::kNvidiaSmi});
  MemorySource source;
  std::vector<std::string> notes;
  const std::vector<std::string> paths{path, none};
  const Result<Summary> summary =
      import_nvidia_smi(paths, source, [&](const std::string& note) { notes.push_back(note); });
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->files, 1U);
  EXPECT_EQ(summary->rows, 1U);
  EXPECT_EQ(notes.size(), 1U);
  const std::vector<LogLine> heads = lines_of(source, LogKind::kVersion);
  ASSERT_EQ(heads.size(), 1U);
  EXPECT_EQ(heads[0].text, "nvidia-smi: 1 GPU, driver 565.57.01");
  EXPECT_EQ(heads[0].timestamp_ns, 1'777'975'203'000'000'000);  // 2026-05-05T10:00:03Z
  EXPECT_EQ(lines_of(source, LogKind::kWarning).size(), 1U);
}

}  // namespace
}  // namespace stalltrace::import
