// SPDX-License-Identifier: Apache-2.0
#include "import/nvidia_smi/gpu_report.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"

namespace stalltrace::import {
namespace {

constexpr size_t kMostGpus = 100'000;  // of a file
constexpr size_t kMostPids = 16;
constexpr size_t kLongestText = 64;

struct Reason {
  std::string_view key;
  GpuCondition condition;
};
constexpr std::array kReasons{
    Reason{"HW Slowdown", GpuCondition::kHwSlowdown}, Reason{"HW Thermal Slowdown", GpuCondition::kHwThermal},
    Reason{"HW Power Brake Slowdown", GpuCondition::kHwPowerBrake},
    Reason{"SW Thermal Slowdown", GpuCondition::kSwThermal}, Reason{"SW Power Cap", GpuCondition::kPowerCap}};

/// "345 MHz", "91 C", "3"
std::optional<int64_t> number_of(std::string_view value) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool ends = end == value.data() + value.size() || *end == ' ';
  return error == std::errc() && ends && number >= 0 && number < (int64_t{1} << 31) ? std::optional(number)
                                                                                    : std::nullopt;
}

std::optional<int32_t> small_number(std::string_view value) {
  const auto number = number_of(value);
  return number ? std::optional(static_cast<int32_t>(*number)) : std::nullopt;
}

/// "0000:18:00" of "GPU 00000000:18:00.0"; empty: no such line.
std::string device_of(std::string_view line) {
  constexpr std::string_view kHex = "0123456789abcdefABCDEF";
  if (!line.starts_with("GPU ")) {
    return "";
  }
  const std::string_view address = trim(line.substr(4));
  constexpr std::string_view kForm = "xxxxxxxx:xx:xx.x";
  if (address.size() != kForm.size()) {
    return "";
  }
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = kHex.find(address[i]) != std::string_view::npos;
    if (kForm[i] == 'x' ? !digit : address[i] != kForm[i]) {
      return "";
    }
  }
  std::string device(address.substr(4, 10));
  std::ranges::transform(device, device.begin(),
                         [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
  return device;
}

void add(GpuState& gpu, GpuCondition condition) {
  if (std::ranges::find(gpu.conditions, condition) == gpu.conditions.end()) {
    gpu.conditions.push_back(condition);
  }
}

}  // namespace

bool is_gpu_report_line(std::string_view line) {
  return line.starts_with("=====") && line.find("NVSMI LOG") != std::string_view::npos;
}

void GpuReportReader::take(std::string_view line, int64_t number) {
  if (is_gpu_report_line(line)) {
    reports_.push_back({.line = number, .time = {}, .driver = {}, .gpus = {}});
    gpu_ = nullptr;
    return;
  }
  if (reports_.empty()) {
    return;
  }
  GpuReport& report = reports_.back();
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const size_t colon = line.find(" : ");
  const std::string_view key = trim(line.substr(0, colon));
  const std::string_view value = colon == std::string_view::npos ? std::string_view() : trim(line.substr(colon + 3));
  if (indent == 0) {
    if (std::string device = device_of(line); !device.empty()) {
      gpu_ = nullptr;
      section_.clear();
      part_.clear();
      if (gpus_ == kMostGpus) {
        ++left_out_;
        return;
      }
      ++gpus_;
      gpu_ = &report.gpus.emplace_back(number, GpuState{.device = std::move(device)}).second;
    } else if (key == "Timestamp") {
      report.time = value.substr(0, kLongestText);
    } else if (key == "Driver Version") {
      report.driver = value.substr(0, kLongestText);
    }
    return;
  }
  if (gpu_ == nullptr) {
    return;
  }
  if (colon == std::string_view::npos && indent == 4) {
    section_ = key.substr(0, kLongestText);
    part_.clear();
  } else if (colon == std::string_view::npos && indent == 8) {
    part_ = key.substr(0, kLongestText);
  } else if (colon != std::string_view::npos) {
    take_value(indent, key, value);
  }
}

void GpuReportReader::take_value(size_t indent, std::string_view key, std::string_view value) {
  GpuState& gpu = *gpu_;
  if (indent == 4) {
    section_.clear();
    const bool none = value == "None" || value == "N/A";
    if (key == "GPU Recovery Action" && !none) {
      add(gpu, GpuCondition::kResetRequired);
    }
    return;
  }
  if (section_ == "Clocks Event Reasons" || section_ == "Clocks Throttle Reasons") {
    const auto* const reason = std::ranges::find(kReasons, key, &Reason::key);
    if (reason != kReasons.end() && value == "Active") {
      add(gpu, reason->condition);
    }
  } else if (section_ == "ECC Errors" && part_ == "Volatile" && key.find("Uncorrectable") != std::string_view::npos) {
    const int64_t errors = number_of(value).value_or(0);
    gpu.uncorrectable += errors;
    if (errors > 0) {
      add(gpu, GpuCondition::kUncorrectableEcc);
    }
  } else if (section_ == "Remapped Rows" && value == "Yes") {
    if (key == "Remapping Failure Occurred") {
      add(gpu, GpuCondition::kRemapFailed);
    } else if (key == "Pending") {
      add(gpu, GpuCondition::kRemapPending);
    }
  } else if (section_ == "GPU Reset Status" && key == "Reset Required" && value == "Yes") {
    add(gpu, GpuCondition::kResetRequired);
  } else if (section_ == "Clocks" && key == "SM") {
    gpu.sm_mhz = small_number(value);
  } else if (section_ == "Max Clocks" && key == "SM") {
    gpu.max_sm_mhz = small_number(value);
  } else if (section_ == "Temperature" && key == "GPU Current Temp") {
    gpu.temperature = small_number(value);
  } else if (section_ == "Processes" && key == "Process ID" && gpu.pids.size() < kMostPids) {
    if (const auto pid = small_number(value); pid && *pid > 0) {
      gpu.pids.push_back(*pid);
    }
  }
}

std::vector<GpuReport> GpuReportReader::finish() {
  gpu_ = nullptr;
  return std::move(reports_);
}

}  // namespace stalltrace::import
