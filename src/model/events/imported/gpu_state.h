// SPDX-License-Identifier: Apache-2.0
// What `nvidia-smi -q` or `dcgmi health -c` says of one GPU that explains slowness or errors, as the text of a row of
// log_line on a node whose agent_version is kGpuStateFormat or kGpuHealthFormat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace {

/// Node::agent_version of import/nvidia_smi.
inline constexpr std::string_view kGpuStateFormat = "nvidia_smi";
/// Of import/dcgm_health.
inline constexpr std::string_view kGpuHealthFormat = "dcgm_health";

enum class GpuCondition : uint8_t {
  kHwSlowdown,        // clocks are at most half, by the hardware: heat, or the power supply's signal
  kHwThermal,         // of these: heat
  kHwPowerBrake,      // of these: the power supply's signal
  kSwThermal,         // the driver lowers clocks for heat
  kPowerCap,          // clocks are lowered to stay within the power limit: usual under load
  kUncorrectableEcc,  // since the driver was loaded; `uncorrectable`
  kRemapFailed,       // a row of the memory could not be replaced
  kRemapPending,      // a row will be replaced at the next reset
  kResetRequired,     // the driver says so, or asks for another recovery
  kNvlinkFailed,      // of DCGM's health checks: a failure of its NVLinks
  kPcieFailed,        // of its PCIe link
  kOtherFailed,       // another
  kOtherWarning,      // less than a failure
};
/// "hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal", "power_cap", "uncorrectable_ecc", "remap_failed",
/// "remap_pending", "reset_required", "nvlink_failed", "pcie_failed", "other_failed", "other_warning"
std::string_view to_text(GpuCondition condition);

struct GpuState {
  std::string device;  // PCI address: "0000:18:00"; of DCGM its number: "3"
  std::optional<int32_t> sm_mhz;
  std::optional<int32_t> max_sm_mhz;
  std::optional<int32_t> temperature;  // degrees Celsius
  int64_t uncorrectable = 0;           // ECC errors
  std::vector<int32_t> pids;           // that use it, the first 16
  std::vector<GpuCondition> conditions;
};

/// "gpu 0000:18:00 sm 345 max 1980 temperature 91 ecc 0 pid 4711 has hw_slowdown hw_thermal"
std::string gpu_state_text(const GpuState& state);
/// None for any other text.
std::optional<GpuState> gpu_state_from_text(std::string_view text);

}  // namespace stalltrace
